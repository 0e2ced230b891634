// SPDX-License-Identifier: GPL-2.0
/* Requests and replies on netlink, as functions Rust can call. */

#include "helpers_netlink.h"

#include <linux/sock_diag.h>
#include <net/genetlink.h>
#include <net/netlink.h>
#include <net/net_namespace.h>

/* The room that tools have for a piece of a dump. */
#define RDMA_SOCK_DIAG_BYTES 32768

int rdma_sock_genl_append(struct sk_buff *skb, u32 portid, u32 seq,
			  const struct genl_family *family, u8 command,
			  const void *body, size_t len)
{
	void *head;

	head = genlmsg_put(skb, portid, seq, family, NLM_F_MULTI, command);
	if (!head)
		return -EMSGSIZE;
	if (skb_tailroom(skb) < len) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	skb_put_data(skb, body, len);
	genlmsg_end(skb, head);
	return 0;
}

/* A number that a dump keeps. */
u64 *rdma_sock_helper_dump_place(struct netlink_callback *cb)
{
	BUILD_BUG_ON(sizeof(cb->ctx) < sizeof(u64));
	return (u64 *)cb->ctx;
}

/* A dump goes on in the calls of any program that has the socket. */
struct net *rdma_sock_helper_dump_net(const struct netlink_callback *cb)
{
	return sock_net(cb->skb->sk);
}

const void *rdma_sock_helper_dump_request(const struct netlink_callback *cb,
					  size_t *len)
{
	*len = nlmsg_len(cb->nlh);
	return nlmsg_data(cb->nlh);
}

u32 rdma_sock_helper_dump_uid(const struct netlink_callback *cb,
			      const struct sock *sk)
{
	return from_kuid_munged(sk_user_ns(NETLINK_CB(cb->skb).sk), sk_uid(sk));
}

size_t rdma_sock_helper_skb_len(const struct sk_buff *skb)
{
	return skb->len;
}

void rdma_sock_helper_skb_cut(struct sk_buff *skb, size_t len)
{
	skb_trim(skb, len);
}

/* linux/sock_diag.h */

u64 rdma_sock_helper_sk_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}

int rdma_sock_helper_diag_put(struct sk_buff *skb, const struct netlink_callback *cb,
			      const void *body, size_t len)
{
	struct nlmsghdr *nlh;

	nlh = nlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			cb->nlh->nlmsg_type, len, NLM_F_MULTI);
	if (!nlh)
		return -EMSGSIZE;
	memcpy(nlmsg_data(nlh), body, len);
	return 0;
}

static int (*diag_dump)(struct sk_buff *skb, struct netlink_callback *cb);

/* smcss sets one of the two bits of a dump. */
static int diag_request(struct sk_buff *skb, struct nlmsghdr *nlh)
{
	struct netlink_dump_control control = {
		.dump = diag_dump,
		.min_dump_alloc = SKB_WITH_OVERHEAD(RDMA_SOCK_DIAG_BYTES),
	};

	if (!(nlh->nlmsg_flags & NLM_F_DUMP))
		return 0;
	/* It adds this module, which stays until the dump is over. */
	return netlink_dump_start(sock_net(skb->sk)->diag_nlsk, skb, nlh, &control);
}

static struct sock_diag_handler diag_handler = {
	.owner = THIS_MODULE,
	.dump = diag_request,
};

int rdma_sock_helper_diag_register(u8 family,
				   int (*dump)(struct sk_buff *skb,
					       struct netlink_callback *cb))
{
	diag_dump = dump;
	diag_handler.family = family;
	return sock_diag_register(&diag_handler);
}

void rdma_sock_helper_diag_unregister(void)
{
	sock_diag_unregister(&diag_handler);
}
