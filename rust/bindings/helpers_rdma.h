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
bool rdma_sock_helper_rdma_protocol_roce(struct ib_device *dev, u32 port);
bool rdma_sock_helper_ib_is_iwarp(struct ib_device *dev);
int rdma_sock_helper_ib_max_qp_wr(struct ib_device *dev);
int rdma_sock_helper_ib_max_cqe(struct ib_device *dev);
u32 rdma_sock_helper_ib_max_send_sge(struct ib_device *dev);
u32 rdma_sock_helper_ib_max_fast_reg_pages(struct ib_device *dev);
bool rdma_sock_helper_ib_can_register(struct ib_device *dev);
int rdma_sock_helper_ib_gid_tbl_len(struct ib_device *dev, u32 port);
int rdma_sock_helper_netdev_ifindex(struct net_device *ndev);
u64 rdma_sock_helper_netdev_net_cookie(struct net_device *ndev);
bool rdma_sock_helper_netdev_allowed(struct ib_device *device,
				     struct net_device *ndev);
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

#endif /* RDMA_SOCK_HELPERS_RDMA_H */
