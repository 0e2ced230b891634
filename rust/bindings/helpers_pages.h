/* SPDX-License-Identifier: GPL-2.0 */
/* The pages of a message, and the notification of their owner when they are free. */
#ifndef RDMA_SOCK_HELPERS_PAGES_H
#define RDMA_SOCK_HELPERS_PAGES_H

#include <linux/bvec.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <linux/uio.h>
#include <net/sock.h>

/* linux/uio.h, linux/mm.h */
ssize_t rdma_sock_helper_extract_pages(struct iov_iter *iter, struct page **pages,
				       size_t size, unsigned int most, size_t *offset);
bool rdma_sock_helper_extract_will_pin(const struct iov_iter *iter);
void rdma_sock_helper_iter_revert(struct iov_iter *iter, size_t count);
void rdma_sock_helper_page_iter(struct iov_iter *iter, struct bio_vec *vec, struct page *page,
				unsigned int offset, unsigned int len);
bool rdma_sock_helper_get_page(struct page *page);
void rdma_sock_helper_put_page(struct page *page);
void rdma_sock_helper_unpin_page(struct page *page);

/* linux/skbuff.h */
struct ubuf_info *rdma_sock_helper_zerocopy_begin(struct sock *sk, struct msghdr *msg, size_t len);
void rdma_sock_helper_zerocopy_get(struct ubuf_info *uarg);
void rdma_sock_helper_zerocopy_put(struct ubuf_info *uarg, bool lent);
void rdma_sock_helper_zerocopy_abort(struct ubuf_info *uarg);

#endif /* RDMA_SOCK_HELPERS_PAGES_H */
