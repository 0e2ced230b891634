/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inline functions and macros of the verbs and DMA headers as functions that Rust can call.
 */
#ifndef RDMA_SOCK_HELPERS_RDMA_H
#define RDMA_SOCK_HELPERS_RDMA_H

#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

/* rdma/ib_verbs.h: devices and ports */
const char *rdma_sock_helper_ib_device_name(struct ib_device *dev);
u32 rdma_sock_helper_ib_phys_ports(struct ib_device *dev);
void rdma_sock_helper_ib_pci(struct ib_device *dev, u16 *vendor, u16 *device,
			     char *address, size_t size);
bool rdma_sock_helper_rdma_protocol_roce(struct ib_device *dev, u32 port);
bool rdma_sock_helper_ib_is_iwarp(struct ib_device *dev);
int rdma_sock_helper_ib_max_qp_wr(struct ib_device *dev);
int rdma_sock_helper_ib_max_reads(struct ib_device *dev);
int rdma_sock_helper_ib_max_cqe(struct ib_device *dev);
u32 rdma_sock_helper_ib_max_send_sge(struct ib_device *dev);
u32 rdma_sock_helper_ib_max_recv_sge(struct ib_device *dev);
u32 rdma_sock_helper_ib_max_fast_reg_pages(struct ib_device *dev);
bool rdma_sock_helper_ib_can_register(struct ib_device *dev);
int rdma_sock_helper_ib_gid_tbl_len(struct ib_device *dev, u32 port);
int rdma_sock_helper_netdev_ifindex(struct net_device *ndev);
u64 rdma_sock_helper_netdev_net_cookie(struct net_device *ndev);
bool rdma_sock_helper_netdev_allowed(struct ib_device *device,
				     struct net_device *ndev);
bool rdma_sock_helper_ib_allows(struct ib_device *device, u64 net_cookie);
struct net *rdma_sock_helper_netdev_get_net(struct net_device *ndev);
void rdma_sock_helper_ib_parent_name(struct ib_device *dev, char *name, size_t size);
unsigned int rdma_sock_helper_netdev_mtu(struct net_device *ndev);
void rdma_sock_helper_rtnl_barrier(void);
void rdma_sock_helper_netdev_put(struct net_device *ndev);

/* rdma/ib_verbs.h: objects */
struct ib_pd *rdma_sock_helper_ib_alloc_pd(struct ib_device *dev);
void rdma_sock_helper_ib_dealloc_pd(struct ib_pd *pd);
struct ib_cq *rdma_sock_helper_ib_alloc_cq_any(struct ib_device *dev, void *private, int nr_cqe,
					       enum ib_poll_context poll_ctx);
struct ib_qp *rdma_sock_helper_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr);
int rdma_sock_helper_ib_destroy_qp(struct ib_qp *qp);
int rdma_sock_helper_ib_dereg_mr(struct ib_mr *mr);
u32 rdma_sock_helper_ib_pd_local_dma_lkey(struct ib_pd *pd);
u32 rdma_sock_helper_ib_qp_num(struct ib_qp *qp);
bool rdma_sock_helper_ib_qp_has_port(const struct ib_qp *qp, u32 port);
void rdma_sock_helper_ib_qp_set_usecnt(struct ib_qp *qp, int count);
int rdma_sock_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
				  const struct ib_send_wr **bad_wr);
int rdma_sock_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
				  const struct ib_recv_wr **bad_wr);
u32 rdma_sock_helper_ib_mr_rkey(struct ib_mr *mr);
u64 rdma_sock_helper_ib_mr_iova(struct ib_mr *mr);
void rdma_sock_helper_ib_mr_next_key(struct ib_mr *mr);
int rdma_sock_helper_ib_map_mr_sg_offset(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
					 unsigned int page_size);
int rdma_sock_helper_ib_map_mr_sg_zbva(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
				       unsigned int page_size);

/* rdma/ib_verbs.h: DMA */
u64 rdma_sock_helper_ib_dma_map_single(struct ib_device *dev, void *addr, size_t size,
				       enum dma_data_direction dir);
int rdma_sock_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr);
void rdma_sock_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
					  enum dma_data_direction dir);
u64 rdma_sock_helper_ib_dma_map_page(struct ib_device *dev, struct page *page, size_t offset,
				     size_t size, enum dma_data_direction dir);
void rdma_sock_helper_ib_dma_unmap_page(struct ib_device *dev, u64 addr, size_t size,
					enum dma_data_direction dir);
void rdma_sock_helper_ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t size,
						 enum dma_data_direction dir);
void rdma_sock_helper_ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t size,
						    enum dma_data_direction dir);

/* linux/scatterlist.h */
void rdma_sock_helper_sg_set_mapped(struct scatterlist *sg, struct page *page, unsigned int len,
				    u64 dma_addr);

#if IS_ENABLED(CONFIG_KUNIT)
/* For tests of drivers. */
int rdma_sock_helper_test_poll_cq(struct ib_cq *cq, struct ib_wc *wc);
struct ib_srq *rdma_sock_helper_test_create_srq(struct ib_pd *pd, u32 max_wr, u32 max_sge,
						void (*handler)(struct ib_event *, void *),
						void *context);
int rdma_sock_helper_test_destroy_srq(struct ib_srq *srq);
int rdma_sock_helper_test_resize_srq(struct ib_srq *srq, u32 max_wr);
int rdma_sock_helper_test_arm_srq(struct ib_srq *srq, u32 limit);
int rdma_sock_helper_test_query_srq(struct ib_srq *srq, u32 *max_wr, u32 *limit);
int rdma_sock_helper_test_post_srq(struct ib_srq *srq, const struct ib_recv_wr *wr);
int rdma_sock_helper_test_query_qp(struct ib_qp *qp);
int rdma_sock_helper_test_alloc_mr(struct ib_pd *pd, enum ib_mr_type type);
struct ib_ah *rdma_sock_helper_test_create_ah(struct ib_pd *pd, struct rdma_ah_attr *attr,
					      bool may_sleep);
int rdma_sock_helper_test_modify_ah(struct ib_ah *ah, struct rdma_ah_attr *attr);
int rdma_sock_helper_test_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr);
void rdma_sock_helper_test_destroy_ah(struct ib_ah *ah, bool may_sleep);
int rdma_sock_helper_test_send_ud(struct ib_qp *qp, struct ib_ah *ah, u32 qpn, u32 qkey,
				  const struct ib_send_wr *wr);
#endif

#endif /* RDMA_SOCK_HELPERS_RDMA_H */
