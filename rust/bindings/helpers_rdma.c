// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of the verbs and DMA headers as functions that Rust can call. There
 * is no logic here.
 */

#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>

#include "helpers_rdma.h"

const char *rdma_sock_helper_ib_device_name(struct ib_device *dev)
{
	return dev_name(&dev->dev);
}

u32 rdma_sock_helper_ib_phys_ports(struct ib_device *dev)
{
	return dev->phys_port_cnt;
}

void rdma_sock_helper_ib_pci(struct ib_device *dev, u16 *vendor, u16 *device,
			     char *address, size_t size)
{
	struct device *parent = dev->dev.parent;

	/* Software devices have no parent, or one elsewhere. */
	if (!parent || !dev_is_pci(parent))
		return;
	*vendor = to_pci_dev(parent)->vendor;
	*device = to_pci_dev(parent)->device;
	strscpy(address, pci_name(to_pci_dev(parent)), size);
}

bool rdma_sock_helper_rdma_protocol_roce(struct ib_device *dev, u32 port)
{
	return rdma_protocol_roce(dev, port);
}

bool rdma_sock_helper_ib_is_iwarp(struct ib_device *dev)
{
	return rdma_protocol_iwarp(dev, rdma_start_port(dev));
}

int rdma_sock_helper_ib_max_qp_wr(struct ib_device *dev)
{
	return dev->attrs.max_qp_wr;
}

int rdma_sock_helper_ib_max_reads(struct ib_device *dev)
{
	return min(dev->attrs.max_qp_rd_atom, dev->attrs.max_qp_init_rd_atom);
}

int rdma_sock_helper_ib_max_cqe(struct ib_device *dev)
{
	return dev->attrs.max_cqe;
}

u32 rdma_sock_helper_ib_max_send_sge(struct ib_device *dev)
{
	return dev->attrs.max_send_sge;
}

u32 rdma_sock_helper_ib_max_recv_sge(struct ib_device *dev)
{
	return dev->attrs.max_recv_sge;
}

u32 rdma_sock_helper_ib_max_fast_reg_pages(struct ib_device *dev)
{
	return dev->attrs.max_fast_reg_page_list_len;
}

bool rdma_sock_helper_ib_can_register(struct ib_device *dev)
{
	return dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS;
}

int rdma_sock_helper_ib_gid_tbl_len(struct ib_device *dev, u32 port)
{
	return dev->port_data[port].immutable.gid_tbl_len;
}

int rdma_sock_helper_netdev_ifindex(struct net_device *ndev)
{
	return ndev->ifindex;
}

u64 rdma_sock_helper_netdev_net_cookie(struct net_device *ndev)
{
	return dev_net(ndev)->net_cookie;
}

bool rdma_sock_helper_netdev_allowed(struct ib_device *device,
				     struct net_device *ndev)
{
	return rdma_dev_access_netns(device, dev_net(ndev));
}

/* Whether a namespace may use a device, of which only the cookie is known. */
bool rdma_sock_helper_ib_allows(struct ib_device *device, u64 net_cookie)
{
	/* No device is in the namespace NULL: this asks for the mode. */
	return rdma_dev_access_netns(device, NULL) ||
	       read_pnet(&device->coredev.rdma_net)->net_cookie == net_cookie;
}

/* The namespace of a network device, unless it goes. */
struct net *rdma_sock_helper_netdev_get_net(struct net_device *ndev)
{
	return maybe_get_net(dev_net(ndev));
}

/* Empty without a parent. */
void rdma_sock_helper_ib_parent_name(struct ib_device *dev, char *name, size_t size)
{
	if (dev->dev.parent)
		strscpy(name, dev_name(dev->dev.parent), size);
}

unsigned int rdma_sock_helper_netdev_mtu(struct net_device *ndev)
{
	return READ_ONCE(ndev->mtu);
}

void rdma_sock_helper_rtnl_barrier(void)
{
	rtnl_lock();
	rtnl_unlock();
}

void rdma_sock_helper_netdev_put(struct net_device *ndev)
{
	dev_put(ndev);
}

struct ib_pd *rdma_sock_helper_ib_alloc_pd(struct ib_device *dev)
{
	return ib_alloc_pd(dev, 0);
}

void rdma_sock_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

struct ib_cq *rdma_sock_helper_ib_alloc_cq_any(struct ib_device *dev, void *private, int nr_cqe,
					       enum ib_poll_context poll_ctx)
{
	return ib_alloc_cq_any(dev, private, nr_cqe, poll_ctx);
}

struct ib_qp *rdma_sock_helper_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	return ib_create_qp(pd, attr);
}

int rdma_sock_helper_ib_destroy_qp(struct ib_qp *qp)
{
	return ib_destroy_qp(qp);
}

int rdma_sock_helper_ib_dereg_mr(struct ib_mr *mr)
{
	return ib_dereg_mr(mr);
}

u32 rdma_sock_helper_ib_pd_local_dma_lkey(struct ib_pd *pd)
{
	return pd->local_dma_lkey;
}

u32 rdma_sock_helper_ib_qp_num(struct ib_qp *qp)
{
	return qp->qp_num;
}

bool rdma_sock_helper_ib_qp_has_port(const struct ib_qp *qp, u32 port)
{
	return rdma_is_port_valid(qp->device, port);
}

void rdma_sock_helper_ib_qp_set_usecnt(struct ib_qp *qp, int count)
{
	atomic_set(&qp->usecnt, count);
}

int rdma_sock_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
				  const struct ib_send_wr **bad_wr)
{
	return ib_post_send(qp, wr, bad_wr);
}

int rdma_sock_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
				  const struct ib_recv_wr **bad_wr)
{
	return ib_post_recv(qp, wr, bad_wr);
}

u32 rdma_sock_helper_ib_mr_rkey(struct ib_mr *mr)
{
	return mr->rkey;
}

u64 rdma_sock_helper_ib_mr_iova(struct ib_mr *mr)
{
	return mr->iova;
}

void rdma_sock_helper_ib_mr_next_key(struct ib_mr *mr)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
}

/* The region begins at the offset of its first octet in the page. */
int rdma_sock_helper_ib_map_mr_sg_offset(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
					 unsigned int page_size)
{
	int mapped = ib_map_mr_sg(mr, sg, sg_nents, NULL, page_size);

	mr->iova &= page_size - 1;
	return mapped;
}

int rdma_sock_helper_ib_map_mr_sg_zbva(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
				       unsigned int page_size)
{
	return ib_map_mr_sg_zbva(mr, sg, sg_nents, NULL, page_size);
}

u64 rdma_sock_helper_ib_dma_map_single(struct ib_device *dev, void *addr, size_t size,
				       enum dma_data_direction dir)
{
	return ib_dma_map_single(dev, addr, size, dir);
}

int rdma_sock_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

/*
 * Memory may be mapped for several devices, each with a bounce buffer. One that goes must not
 * cover what another device wrote, and what its own wrote has been synchronised before it was read.
 */
void rdma_sock_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
					  enum dma_data_direction dir)
{
	if (!ib_uses_virt_dma(dev))
		dma_unmap_single_attrs(dev->dma_device, addr, size, dir, DMA_ATTR_SKIP_CPU_SYNC);
}

u64 rdma_sock_helper_ib_dma_map_page(struct ib_device *dev, struct page *page, size_t offset,
				     size_t size, enum dma_data_direction dir)
{
	return ib_dma_map_page(dev, page, offset, size, dir);
}

void rdma_sock_helper_ib_dma_unmap_page(struct ib_device *dev, u64 addr, size_t size,
					enum dma_data_direction dir)
{
	ib_dma_unmap_page(dev, addr, size, dir);
}

void rdma_sock_helper_ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t size,
						 enum dma_data_direction dir)
{
	ib_dma_sync_single_for_cpu(dev, addr, size, dir);
}

void rdma_sock_helper_ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t size,
						    enum dma_data_direction dir)
{
	ib_dma_sync_single_for_device(dev, addr, size, dir);
}

void rdma_sock_helper_sg_set_mapped(struct scatterlist *sg, struct page *page, unsigned int len,
				    u64 dma_addr)
{
	sg_set_page(sg, page, len, 0);
	sg_dma_address(sg) = dma_addr;
	sg_dma_len(sg) = len;
}

#if IS_ENABLED(CONFIG_KUNIT)
/* For tests of drivers: what this module itself does without. */

int rdma_sock_helper_test_poll_cq(struct ib_cq *cq, struct ib_wc *wc)
{
	return ib_poll_cq(cq, 1, wc);
}

struct ib_srq *rdma_sock_helper_test_create_srq(struct ib_pd *pd, u32 max_wr, u32 max_sge,
						void (*handler)(struct ib_event *, void *),
						void *context)
{
	struct ib_srq_init_attr attr = {
		.event_handler = handler,
		.srq_context = context,
		.attr.max_wr = max_wr,
		.attr.max_sge = max_sge,
		.srq_type = IB_SRQT_BASIC,
	};

	return ib_create_srq(pd, &attr);
}

int rdma_sock_helper_test_destroy_srq(struct ib_srq *srq)
{
	return ib_destroy_srq_user(srq, NULL);
}

int rdma_sock_helper_test_resize_srq(struct ib_srq *srq, u32 max_wr)
{
	struct ib_srq_attr attr = { .max_wr = max_wr };

	return ib_modify_srq(srq, &attr, IB_SRQ_MAX_WR);
}

int rdma_sock_helper_test_arm_srq(struct ib_srq *srq, u32 limit)
{
	struct ib_srq_attr attr = { .srq_limit = limit };

	return ib_modify_srq(srq, &attr, IB_SRQ_LIMIT);
}

int rdma_sock_helper_test_query_srq(struct ib_srq *srq, u32 *max_wr, u32 *limit)
{
	struct ib_srq_attr attr = {};
	int err = ib_query_srq(srq, &attr);

	*max_wr = attr.max_wr;
	*limit = attr.srq_limit;
	return err;
}

int rdma_sock_helper_test_post_srq(struct ib_srq *srq, const struct ib_recv_wr *wr)
{
	const struct ib_recv_wr *bad;

	return ib_post_srq_recv(srq, wr, &bad);
}

int rdma_sock_helper_test_query_qp(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return ib_query_qp(qp, &attr, IB_QP_STATE, &init);
}

/* The error of a region of a type; 0, and it is gone again, if there is one. */
int rdma_sock_helper_test_alloc_mr(struct ib_pd *pd, enum ib_mr_type type)
{
	struct ib_mr *mr = type == IB_MR_TYPE_INTEGRITY ?
		ib_alloc_mr_integrity(pd, 1, 1) : ib_alloc_mr(pd, type, 1);

	return IS_ERR(mr) ? PTR_ERR(mr) : ib_dereg_mr(mr);
}

struct ib_ah *rdma_sock_helper_test_create_ah(struct ib_pd *pd, struct rdma_ah_attr *attr,
					      bool may_sleep)
{
	return rdma_create_ah(pd, attr, may_sleep ? RDMA_CREATE_AH_SLEEPABLE : 0);
}

int rdma_sock_helper_test_modify_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	return rdma_modify_ah(ah, attr);
}

int rdma_sock_helper_test_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	return rdma_query_ah(ah, attr);
}

void rdma_sock_helper_test_destroy_ah(struct ib_ah *ah, bool may_sleep)
{
	rdma_destroy_ah(ah, may_sleep ? RDMA_DESTROY_AH_SLEEPABLE : 0);
}

int rdma_sock_helper_test_send_ud(struct ib_qp *qp, struct ib_ah *ah, u32 qpn, u32 qkey,
				  const struct ib_send_wr *wr)
{
	struct ib_ud_wr ud = {
		.wr = *wr,
		.ah = ah,
		.remote_qpn = qpn,
		.remote_qkey = qkey,
	};

	return ib_post_send(qp, &ud.wr, NULL);
}
#endif
