/* SPDX-License-Identifier: GPL-2.0 */
/* What drivers of RDMA devices need for programs in user space, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_UVERBS_H
#define RDMA_SOCK_HELPERS_UVERBS_H

#include <linux/mm_types.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include <rdma/rdma_user_rxe.h>

struct ib_udata *
rdma_sock_helper_bundle_udata(struct uverbs_attr_bundle *attrs);
struct ib_ucontext *rdma_sock_helper_udata_context(struct ib_udata *udata);
int rdma_sock_helper_udata_expect_empty(struct ib_udata *udata);
int rdma_sock_helper_udata_request(struct ib_udata *udata, void *request,
				   size_t len);
int rdma_sock_helper_store_user(u64 to, const void *from, size_t len);
int rdma_sock_helper_udata_respond(struct ib_udata *udata, const void *response,
				   size_t len);

void *rdma_sock_helper_ring_alloc(size_t len);
void rdma_sock_helper_ring_free(void *ring);
int rdma_sock_helper_ring_map(struct vm_area_struct *vma, void *ring,
			      size_t len);
void rdma_sock_helper_ring_copy(void *to, const void *from, size_t len);
u32 rdma_sock_helper_ring_load_index(const void *at);
void rdma_sock_helper_ring_store_index(void *at, u32 index);
u64 rdma_sock_helper_mmap_offset(const struct rdma_user_mmap_entry *entry);

struct ib_device *rdma_sock_helper_ibah_device(const struct ib_ah *ah);

struct ib_umem *rdma_sock_helper_umem_pin(struct ib_device *dev, u64 start,
					  u64 len, int access);
size_t rdma_sock_helper_umem_blocks(struct ib_umem *umem, u64 iova, u64 sizes,
				    u64 *size);
size_t rdma_sock_helper_umem_list(struct ib_umem *umem, u64 size, u64 *blocks,
				  size_t room);

#endif /* RDMA_SOCK_HELPERS_UVERBS_H */
