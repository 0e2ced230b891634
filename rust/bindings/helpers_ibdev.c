// SPDX-License-Identifier: GPL-2.0
/* Fields, inline functions and macros for drivers of RDMA devices, as functions Rust can call. */

#include "helpers_ibdev.h"

#include <linux/bug.h>
#include <linux/cpumask.h>
#ifdef CONFIG_HAS_DMA
#include <linux/dma-direct.h>
#endif
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_user_verbs.h>

#if IS_BUILTIN(CONFIG_KUNIT)
#include <kunit/test-bug.h>
#include <kunit/test.h>
#endif

struct ib_device *rdma_sock_helper_ibdev_alloc(size_t size)
{
	return _ib_alloc_device(size, &init_net);
}

/* Copies the operations; the table is not used afterwards. */
void rdma_sock_helper_ibdev_setup(struct ib_device *dev,
				  const struct ib_device_ops *ops,
				  const struct rdma_sock_ibdev_setup *setup)
{
	ib_set_device_ops(dev, ops);
	dev->ops.owner = THIS_MODULE;
	strscpy(dev->node_desc, setup->description, sizeof(dev->node_desc));
	memcpy(&dev->node_guid, setup->node_guid, sizeof(dev->node_guid));
	dev->local_dma_lkey = setup->local_dma_lkey;
	dev->node_type = RDMA_NODE_IB_CA;
	dev->phys_port_cnt = 1;
	dev->num_comp_vectors = num_possible_cpus();
	/* The doorbells of rxe's interface with user space. */
	dev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
#ifdef RDMA_SOCK_ROBUST_UDATA
	dev->ops.uverbs_robust_udata = 1;
#endif
	ib_mark_name_assigned_by_user(dev);
}

/* A reference to the memory of the device, not to its use. */
void rdma_sock_helper_ibdev_get(struct ib_device *dev)
{
	get_device(&dev->dev);
}

void rdma_sock_helper_ibdev_put(struct ib_device *dev)
{
	put_device(&dev->dev);
}

/* Fails when the device is being unregistered; else ib_device_put() ends the use. */
bool rdma_sock_helper_ibdev_try_use(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

#ifdef CONFIG_HAS_DMA
/* A device that reaches all memory, or an error pointer. */
struct platform_device *rdma_sock_helper_dma_device_new(const char *name)
{
	struct platform_device *pdev;
	int err;

	pdev = platform_device_register_simple(name, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(pdev))
		return pdev;
	err = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err) {
		platform_device_unregister(pdev);
		return ERR_PTR(err);
	}
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	return pdev;
}

/* The address of memory in the kernel, or 0 for what is no memory. */
u64 rdma_sock_helper_dma_to_kernel(struct device *dev, u64 addr, u64 len)
{
	phys_addr_t first = dma_to_phys(dev, addr), last = dma_to_phys(dev, addr + len - 1);

	if (addr + len - 1 < addr || !pfn_valid(PHYS_PFN(first)) || !pfn_valid(PHYS_PFN(last)))
		return 0;
	return (uintptr_t)phys_to_virt(first);
}
#else
struct platform_device *rdma_sock_helper_dma_device_new(const char *name)
{
	return ERR_PTR(-EOPNOTSUPP);
}

u64 rdma_sock_helper_dma_to_kernel(struct device *dev, u64 addr, u64 len)
{
	return 0;
}
#endif

struct device *rdma_sock_helper_dma_device(struct platform_device *pdev)
{
	return &pdev->dev;
}

void rdma_sock_helper_dma_device_free(struct platform_device *pdev)
{
	platform_device_unregister(pdev);
}

struct ib_device *rdma_sock_helper_ibpd_device(const struct ib_pd *pd)
{
	return pd->device;
}

struct ib_device *rdma_sock_helper_ibcq_device(const struct ib_cq *cq)
{
	return cq->device;
}

void rdma_sock_helper_ibcq_set_entries(struct ib_cq *cq, u32 entries)
{
	cq->cqe = entries;
}

void rdma_sock_helper_ibcq_complete(struct ib_cq *cq)
{
	if (cq->comp_handler)
		cq->comp_handler(cq, cq->cq_context);
}

void rdma_sock_helper_ibcq_error(struct ib_cq *cq)
{
	struct ib_event event = {
		.device = cq->device,
		.element.cq = cq,
		.event = IB_EVENT_CQ_ERR,
	};

	if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

/* A program destroys an object within a handler of the object. */
void rdma_sock_helper_warn_own_handler(void)
{
	WARN(1, "rdma_soft: an object is destroyed by its own handler\n");
}

#if IS_ENABLED(CONFIG_KUNIT)
/* A completion queue of no device, with these handlers. */
struct ib_cq *rdma_sock_helper_test_cq_alloc(ib_comp_handler complete,
					     void (*event)(struct ib_event *, void *),
					     void *context)
{
	struct ib_cq *cq = kzalloc(sizeof(*cq), GFP_KERNEL);

	if (!cq)
		return NULL;
	cq->comp_handler = complete;
	cq->event_handler = event;
	cq->cq_context = context;
	return cq;
}

void rdma_sock_helper_test_cq_free(struct ib_cq *cq)
{
	kfree(cq);
}

bool rdma_sock_helper_test_in_softirq(void)
{
	return in_serving_softirq();
}
#endif

#if IS_BUILTIN(CONFIG_KUNIT)
/*
 * Counts the warnings of the running test from here on, in place of printing them; NULL if the
 * kernel cannot.
 */
void *rdma_sock_helper_test_expect_warnings(void)
{
#ifdef kunit_warning_suppress
	return kunit_start_suppress_warning(kunit_get_current_test());
#else
	return NULL;
#endif
}

/* The number of these warnings. Others are printed again. */
int rdma_sock_helper_test_warnings(void *warnings)
{
	int count = 0;

#ifdef kunit_warning_suppress
	count = kunit_suppressed_warning_count(warnings);
	kunit_end_suppress_warning(kunit_get_current_test(), warnings);
#endif
	return count;
}
#endif

struct ib_pd *rdma_sock_helper_ibqp_pd(const struct ib_qp *qp)
{
	return qp->pd;
}

enum ib_qp_type rdma_sock_helper_ibqp_type(const struct ib_qp *qp)
{
	return qp->qp_type;
}

void rdma_sock_helper_ibqp_set_number(struct ib_qp *qp, u32 number)
{
	qp->qp_num = number;
}

void rdma_sock_helper_ibqp_fill_init(const struct ib_qp *qp,
				     struct ib_qp_init_attr *init)
{
	init->event_handler = qp->event_handler;
	init->qp_context = qp->qp_context;
	init->send_cq = qp->send_cq;
	init->recv_cq = qp->recv_cq;
	init->srq = qp->srq;
	init->qp_type = qp->qp_type;
}

void rdma_sock_helper_ibqp_event(struct ib_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->device,
		.element.qp = qp,
		.event = type,
	};

	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

struct ib_pd *rdma_sock_helper_ibsrq_pd(const struct ib_srq *srq)
{
	return srq->pd;
}

void rdma_sock_helper_ibsrq_limit_reached(struct ib_srq *srq)
{
	struct ib_event event = {
		.device = srq->device,
		.element.srq = srq,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (srq->event_handler)
		srq->event_handler(&event, srq->srq_context);
}

struct ib_device *rdma_sock_helper_ibmr_device(const struct ib_mr *mr)
{
	return mr->device;
}

void rdma_sock_helper_ibmr_set_keys(struct ib_mr *mr, u32 lkey, u32 rkey)
{
	mr->lkey = lkey;
	mr->rkey = rkey;
}

void rdma_sock_helper_ibmr_extent(const struct ib_mr *mr, u64 *iova, u64 *len,
				  u32 *page_size)
{
	*iova = mr->iova;
	*len = mr->length;
	*page_size = mr->page_size;
}

void rdma_sock_helper_ibmr_set_extent(struct ib_mr *mr, u64 iova, u64 len)
{
	mr->iova = iova;
	mr->length = len;
}

/* Address and octets of a mapped element; the next element, or NULL behind the last one. */
struct scatterlist *rdma_sock_helper_sg_mapped(struct scatterlist *sg, u64 *addr, u32 *len)
{
	*addr = sg_dma_address(sg);
	*len = sg_dma_len(sg);
	return sg_next(sg);
}

struct ib_pd *rdma_sock_helper_ibmw_pd(const struct ib_mw *mw)
{
	return mw->pd;
}

struct ib_device *rdma_sock_helper_ibmw_device(const struct ib_mw *mw)
{
	return mw->device;
}

bool rdma_sock_helper_ibmw_is_type_2(const struct ib_mw *mw)
{
	return mw->type == IB_MW_TYPE_2;
}

void rdma_sock_helper_ibmw_set_key(struct ib_mw *mw, u32 rkey)
{
	mw->rkey = rkey;
}

/* Whether all pages of a range are in the kernel's linear map. */
bool rdma_sock_helper_is_linear(u64 addr, u64 len)
{
	u64 last = addr + len - 1;
	u64 page;

	if (!len)
		return true;
	if (last < addr)
		return false;
	for (page = addr & PAGE_MASK; page <= last; page += PAGE_SIZE) {
		if (!virt_addr_valid((void *)(uintptr_t)page))
			return false;
		if (page + PAGE_SIZE < page)
			break;
	}
	return true;
}

struct ib_pd *rdma_sock_helper_ibah_pd(const struct ib_ah *ah)
{
	return ah->pd;
}

/* With a reference to the device, or NULL once the entry is being removed. */
struct net_device *
rdma_sock_helper_gid_netdev(const struct ib_gid_attr *attr)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (IS_ERR(ndev))
		ndev = NULL;
	dev_hold(ndev);
	rcu_read_unlock();
	return ndev;
}

struct rdma_hw_stats *
rdma_sock_helper_stats_alloc(const struct rdma_stat_desc *descs, u32 count)
{
	return rdma_alloc_hw_stats_struct(descs, count,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

void rdma_sock_helper_stats_set(struct rdma_hw_stats *stats, u32 index,
				u64 value)
{
	if (index < stats->num_counters)
		stats->value[index] = value;
}
