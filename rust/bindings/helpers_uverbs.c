// SPDX-License-Identifier: GPL-2.0
/* What drivers of RDMA devices need for programs in user space, as functions Rust can call. */

#include "helpers_ibdev.h"
#include "helpers_uverbs.h"

#include <linux/build_bug.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#ifdef RDMA_SOCK_ROBUST_UDATA
#include <rdma/iter.h>
#endif

/* The layout that rust/proto/roce/ring.rs and wqe.rs have in numbers (RNIC-UAPI-01). */
static_assert(offsetof(struct rxe_queue_buf, log2_elem_size) == 0);
static_assert(offsetof(struct rxe_queue_buf, index_mask) == 4);
static_assert(offsetof(struct rxe_queue_buf, producer_index) == 128);
static_assert(offsetof(struct rxe_queue_buf, consumer_index) == 256);
static_assert(offsetof(struct rxe_queue_buf, data) == 384);

static_assert(offsetof(struct rxe_send_wr, wr_id) == 0);
static_assert(offsetof(struct rxe_send_wr, opcode) == 12);
static_assert(offsetof(struct rxe_send_wr, send_flags) == 16);
static_assert(offsetof(struct rxe_send_wr, ex) == 20);
static_assert(offsetof(struct rxe_send_wr, wr.rdma.remote_addr) == 24);
static_assert(offsetof(struct rxe_send_wr, wr.rdma.rkey) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.atomic.remote_addr) == 24);
static_assert(offsetof(struct rxe_send_wr, wr.atomic.compare_add) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.atomic.swap) == 40);
static_assert(offsetof(struct rxe_send_wr, wr.atomic.rkey) == 48);
static_assert(offsetof(struct rxe_send_wr, wr.ud.remote_qpn) == 24);
static_assert(offsetof(struct rxe_send_wr, wr.ud.remote_qkey) == 28);
static_assert(offsetof(struct rxe_send_wr, wr.ud.pkey_index) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.ud.ah_num) == 36);
static_assert(offsetof(struct rxe_send_wr, wr.mw.addr) == 24);
static_assert(offsetof(struct rxe_send_wr, wr.mw.length) == 32);
static_assert(offsetof(struct rxe_send_wr, wr.mw.mr_lkey) == 40);
static_assert(offsetof(struct rxe_send_wr, wr.mw.mw_rkey) == 44);
static_assert(offsetof(struct rxe_send_wr, wr.mw.rkey) == 48);
static_assert(offsetof(struct rxe_send_wr, wr.mw.access) == 52);
static_assert(sizeof(struct rxe_send_wr) == 144);

static_assert(offsetof(struct rxe_send_wqe, dma) == 184);
static_assert(offsetof(struct rxe_dma_info, length) == 0);
static_assert(offsetof(struct rxe_dma_info, num_sge) == 12);
static_assert(offsetof(struct rxe_dma_info, sge) == 24);
static_assert(offsetof(struct rxe_dma_info, inline_data) == 24);
static_assert(offsetof(struct rxe_recv_wqe, wr_id) == 0);
static_assert(offsetof(struct rxe_recv_wqe, dma) == 16);
static_assert(offsetof(struct rxe_sge, addr) == 0);
static_assert(offsetof(struct rxe_sge, length) == 8);
static_assert(offsetof(struct rxe_sge, lkey) == 12);
static_assert(sizeof(struct rxe_sge) == 16);

static_assert(sizeof(struct ib_uverbs_wc) == 48);
static_assert(sizeof(struct mminfo) == 16);
static_assert(sizeof(struct rxe_create_cq_resp) == 16);
static_assert(sizeof(struct rxe_resize_cq_resp) == 16);
static_assert(sizeof(struct rxe_create_qp_resp) == 32);
static_assert(offsetof(struct rxe_create_qp_resp, sq_mi) == 16);
static_assert(sizeof(struct rxe_create_srq_resp) == 24);
static_assert(sizeof(struct rxe_modify_srq_cmd) == 8);
static_assert(sizeof(struct rxe_create_ah_resp) == 8);

/* NULL for the queues of kernel programs. */
struct ib_udata *
rdma_sock_helper_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}

struct ib_ucontext *rdma_sock_helper_udata_context(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

/* The program passes nothing that a later version may give a meaning. */
int rdma_sock_helper_udata_expect_empty(struct ib_udata *udata)
{
	u8 octet;
	size_t at;

	if (!udata)
		return 0;
	for (at = 0; at < udata->inlen; at++) {
		if (copy_from_user(&octet, udata->inbuf + at, 1))
			return -EFAULT;
		if (octet)
			return -EOPNOTSUPP;
	}
	return 0;
}

/* What the program passes; behind it are only zeros that a later version may give a meaning. */
int rdma_sock_helper_udata_request(struct ib_udata *udata, void *request,
				   size_t len)
{
	int err;

	if (!udata || udata->inlen < len)
		return -EINVAL;
	err = copy_struct_from_user(request, len, udata->inbuf, udata->inlen);
	return err == -E2BIG ? -EOPNOTSUPP : err;
}

/* An address that the program named in its request. */
int rdma_sock_helper_store_user(u64 to, const void *from, size_t len)
{
	return copy_to_user(u64_to_user_ptr(to), from, len) ? -EFAULT : 0;
}

/* What the program has no room for is cut, what is left of its room is cleared. */
int rdma_sock_helper_udata_respond(struct ib_udata *udata, const void *response,
				   size_t len)
{
	if (!udata)
		return 0;
	len = min(len, udata->outlen);
	if (len && copy_to_user(udata->outbuf, response, len))
		return -EFAULT;
	if (len < udata->outlen &&
	    clear_user(udata->outbuf + len, udata->outlen - len))
		return -EFAULT;
	return 0;
}

/* Whole pages filled with zeros, charged to the task. */
void *rdma_sock_helper_ring_alloc(size_t len)
{
	return __vmalloc(len, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
}

void rdma_sock_helper_ring_free(void *ring)
{
	vfree(ring);
}

/* Each page gets a reference from the mapping, so it outlives the ring. */
int rdma_sock_helper_ring_map(struct vm_area_struct *vma, void *ring,
			      size_t len)
{
	size_t at;
	int err;

	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	if (len != vma->vm_end - vma->vm_start)
		return -EINVAL;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	for (at = 0; at < len; at += PAGE_SIZE) {
		err = vm_insert_page(vma, vma->vm_start + at,
				     vmalloc_to_page(ring + at));
		if (err)
			return err;
	}
	return 0;
}

/* Behind a call, so that the caller's compiler cannot read the shared memory twice. */
void rdma_sock_helper_ring_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	barrier();
}

u32 rdma_sock_helper_ring_load_index(const void *at)
{
	/* What the user stored before the index is visible. */
	return smp_load_acquire((const u32 *)at);
}

void rdma_sock_helper_ring_store_index(void *at, u32 index)
{
	/* The user sees what was stored before the index. */
	smp_store_release((u32 *)at, index);
}

u64 rdma_sock_helper_mmap_offset(const struct rdma_user_mmap_entry *entry)
{
	return rdma_user_mmap_get_offset(entry);
}

struct ib_device *rdma_sock_helper_ibah_device(const struct ib_ah *ah)
{
	return ah->device;
}

/* The pages of a range of the task's memory, or an error pointer. */
struct ib_umem *rdma_sock_helper_umem_pin(struct ib_device *dev, u64 start,
					  u64 len, int access)
{
#ifdef RDMA_SOCK_ROBUST_UDATA
	return ib_umem_get_va(dev, start, len, access);
#else
	return ib_umem_get(dev, start, len, access);
#endif
}

/* The largest of the sizes whose blocks cover the range, and their number; 0 if there is none. */
size_t rdma_sock_helper_umem_blocks(struct ib_umem *umem, u64 iova, u64 sizes,
				    u64 *size)
{
	*size = ib_umem_find_best_pgsz(umem, sizes, iova);
	return *size ? ib_umem_num_dma_blocks(umem, *size) : 0;
}

/* The addresses of the blocks; their number, if there is room for all. */
size_t rdma_sock_helper_umem_list(struct ib_umem *umem, u64 size, u64 *blocks,
				  size_t room)
{
	struct ib_block_iter iter;
	size_t count = 0;

	rdma_umem_for_each_dma_block(umem, &iter, size) {
		if (count == room)
			return 0;
		blocks[count++] = rdma_block_iter_dma_address(&iter);
	}
	return count;
}
