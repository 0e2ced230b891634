// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of the kernel that are inline or need a macro, for Rust: pages of messages.
 */

#include <linux/mm.h>
#include <linux/net.h>

#include "helpers_pages.h"

/* Lists pages whose owner knows when they may change: of a program, or what was spliced. */
ssize_t rdma_sock_helper_extract_pages(struct iov_iter *iter, struct page **pages,
				       size_t size, unsigned int most, size_t *offset)
{
	if (!user_backed_iter(iter) && !iov_iter_is_bvec(iter))
		return -EOPNOTSUPP;
	return iov_iter_extract_pages(iter, &pages, size, most, 0, offset);
}

bool rdma_sock_helper_extract_will_pin(const struct iov_iter *iter)
{
	return iov_iter_extract_will_pin(iter);
}

void rdma_sock_helper_iter_revert(struct iov_iter *iter, size_t count)
{
	iov_iter_revert(iter, count);
}

void rdma_sock_helper_page_iter(struct iov_iter *iter, struct bio_vec *vec, struct page *page,
				unsigned int offset, unsigned int len)
{
	bvec_set_page(vec, page, len, offset);
	iov_iter_bvec(iter, ITER_SOURCE, vec, 1, len);
}

/* Not all pages can be held on to. */
bool rdma_sock_helper_get_page(struct page *page)
{
	if (!sendpage_ok(page))
		return false;
	get_page(page);
	return true;
}

void rdma_sock_helper_put_page(struct page *page)
{
	put_page(page);
}

void rdma_sock_helper_unpin_page(struct page *page)
{
	unpin_user_page(page);
}

/* NULL for a message without a notification. */
struct ubuf_info *rdma_sock_helper_zerocopy_begin(struct sock *sk, struct msghdr *msg, size_t len)
{
	struct ubuf_info *uarg = msg->msg_ubuf;

	if (uarg) {
		net_zcopy_get(uarg);
		return uarg;
	}
	if (!(msg->msg_flags & MSG_ZEROCOPY) || !sock_flag(sk, SOCK_ZEROCOPY))
		return NULL;
	uarg = msg_zerocopy_realloc(sk, len, NULL, false);
	return uarg ?: ERR_PTR(-ENOBUFS);
}

void rdma_sock_helper_zerocopy_get(struct ubuf_info *uarg)
{
	net_zcopy_get(uarg);
}

/* io_uring believes that pages were sent if there is a buffer that they were in. */
void rdma_sock_helper_zerocopy_put(struct ubuf_info *uarg, bool lent)
{
	static struct sk_buff buffer;

	uarg->ops->complete(&buffer, uarg, lent);
}

void rdma_sock_helper_zerocopy_abort(struct ubuf_info *uarg)
{
	net_zcopy_put_abort(uarg, true);
}
