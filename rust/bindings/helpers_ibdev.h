/* SPDX-License-Identifier: GPL-2.0 */
/* Fields, inline functions and macros for drivers of RDMA devices, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_IBDEV_H
#define RDMA_SOCK_HELPERS_IBDEV_H

#include <linux/platform_device.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

/*
 * Kernels with this header have ib_umem_get_va(), and check themselves that a driver reads all that
 * a program passes to a call.
 */
#if __has_include("rdma/iter.h")
#define RDMA_SOCK_ROBUST_UDATA 1
#endif

/* What a device of one port says about itself before it is registered. */
struct rdma_sock_ibdev_setup {
	const char *description;
	u8 node_guid[8];
	u32 local_dma_lkey;
};

struct ib_device *rdma_sock_helper_ibdev_alloc(size_t size);
void rdma_sock_helper_ibdev_setup(struct ib_device *dev,
				  const struct ib_device_ops *ops,
				  const struct rdma_sock_ibdev_setup *setup);
void rdma_sock_helper_ibdev_get(struct ib_device *dev);
void rdma_sock_helper_ibdev_put(struct ib_device *dev);
bool rdma_sock_helper_ibdev_try_use(struct ib_device *dev);

struct platform_device *rdma_sock_helper_dma_device_new(const char *name);
struct device *rdma_sock_helper_dma_device(struct platform_device *pdev);
void rdma_sock_helper_dma_device_free(struct platform_device *pdev);
u64 rdma_sock_helper_dma_to_kernel(struct device *dev, u64 addr, u64 len);

struct ib_device *rdma_sock_helper_ibpd_device(const struct ib_pd *pd);

struct ib_device *rdma_sock_helper_ibcq_device(const struct ib_cq *cq);
void rdma_sock_helper_ibcq_set_entries(struct ib_cq *cq, u32 entries);
void rdma_sock_helper_ibcq_complete(struct ib_cq *cq);
void rdma_sock_helper_ibcq_error(struct ib_cq *cq);
void rdma_sock_helper_warn_own_handler(void);

#if IS_ENABLED(CONFIG_KUNIT)
struct ib_cq *rdma_sock_helper_test_cq_alloc(ib_comp_handler complete,
					     void (*event)(struct ib_event *, void *),
					     void *context);
void rdma_sock_helper_test_cq_free(struct ib_cq *cq);
bool rdma_sock_helper_test_in_softirq(void);
#endif
#if IS_BUILTIN(CONFIG_KUNIT)
void *rdma_sock_helper_test_expect_warnings(void);
int rdma_sock_helper_test_warnings(void *warnings);
#endif

struct ib_pd *rdma_sock_helper_ibqp_pd(const struct ib_qp *qp);
enum ib_qp_type rdma_sock_helper_ibqp_type(const struct ib_qp *qp);
void rdma_sock_helper_ibqp_set_number(struct ib_qp *qp, u32 number);
void rdma_sock_helper_ibqp_fill_init(const struct ib_qp *qp,
				     struct ib_qp_init_attr *init);
void rdma_sock_helper_ibqp_event(struct ib_qp *qp, enum ib_event_type type);

struct ib_pd *rdma_sock_helper_ibsrq_pd(const struct ib_srq *srq);
void rdma_sock_helper_ibsrq_limit_reached(struct ib_srq *srq);

struct ib_device *rdma_sock_helper_ibmr_device(const struct ib_mr *mr);
void rdma_sock_helper_ibmr_set_keys(struct ib_mr *mr, u32 lkey, u32 rkey);
void rdma_sock_helper_ibmr_extent(const struct ib_mr *mr, u64 *iova, u64 *len,
				  u32 *page_size);
void rdma_sock_helper_ibmr_set_extent(struct ib_mr *mr, u64 iova, u64 len);
struct scatterlist *rdma_sock_helper_sg_mapped(struct scatterlist *sg, u64 *addr, u32 *len);
struct ib_pd *rdma_sock_helper_ibmw_pd(const struct ib_mw *mw);
struct ib_device *rdma_sock_helper_ibmw_device(const struct ib_mw *mw);
bool rdma_sock_helper_ibmw_is_type_2(const struct ib_mw *mw);
void rdma_sock_helper_ibmw_set_key(struct ib_mw *mw, u32 rkey);
bool rdma_sock_helper_is_linear(u64 addr, u64 len);

struct ib_pd *rdma_sock_helper_ibah_pd(const struct ib_ah *ah);
struct net_device *
rdma_sock_helper_gid_netdev(const struct ib_gid_attr *attr);

struct rdma_hw_stats *
rdma_sock_helper_stats_alloc(const struct rdma_stat_desc *descs, u32 count);
void rdma_sock_helper_stats_set(struct rdma_hw_stats *stats, u32 index,
				u64 value);

#endif /* RDMA_SOCK_HELPERS_IBDEV_H */
