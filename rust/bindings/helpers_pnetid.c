// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family of the table of physical networks, as functions Rust can call: the
 * numbers and limits are those of include/uapi/linux/smc.h and include/net/smc.h.
 */

#include "helpers_netlink.h"
#include "helpers_pnetid.h"

#include <linux/if.h>
#include <linux/smc.h>
#include <net/genetlink.h>
#include <rdma/ib_verbs.h>

/* Octets of an id, as SMC_MAX_PNETID_LEN, which a kernel without CONFIG_SMC may lack. */
#define PNETID_LEN 16

/* Octets that a tool reads at a time. */
#define REPLY_BYTES 16384

static int (*family_dump)(struct sk_buff *skb, struct netlink_callback *cb);
static int (*family_find)(struct net *net, const char *id, void *reply);
static int (*family_change)(struct net *net, u8 command, const char *id,
			    const char *netdev, const char *device, const u8 *port);

/* A reply that is being put together. */
struct reply {
	struct sk_buff *skb;
	const struct genl_info *info;
};

static const void *value(const struct genl_info *info, int kind)
{
	const struct nlattr *found = info->attrs ? info->attrs[kind] : NULL;

	return found ? nla_data(found) : NULL;
}

static int dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return family_dump(skb, cb);
}

/* The entries of an id as one reply, whose end tools wait for. */
static int find(struct sk_buff *skb, struct genl_info *info)
{
	const char *id = value(info, SMC_PNETID_NAME);
	struct reply reply = { .info = info };
	int ret;

	if (!id)
		return -EINVAL;
	reply.skb = nlmsg_new(SKB_WITH_OVERHEAD(REPLY_BYTES) - NLMSG_HDRLEN, GFP_KERNEL);
	if (!reply.skb)
		return -ENOMEM;
	ret = family_find(genl_info_net(info), id, &reply);
	if (!ret && !nlmsg_put(reply.skb, info->snd_portid, info->snd_seq, NLMSG_DONE, 0,
			       NLM_F_MULTI))
		ret = -EMSGSIZE;
	if (ret) {
		nlmsg_free(reply.skb);
		return ret;
	}
	return genlmsg_reply(reply.skb, info);
}

static int change(struct sk_buff *skb, struct genl_info *info)
{
	return family_change(genl_info_net(info), info->genlhdr->cmd,
			     value(info, SMC_PNETID_NAME), value(info, SMC_PNETID_ETHNAME),
			     value(info, SMC_PNETID_IBNAME), value(info, SMC_PNETID_IBPORT));
}

/* Each text ends with a nul, so that Rust gets it without a length. */
static const struct nla_policy family_policy[] = {
	[SMC_PNETID_NAME] = { .type = NLA_NUL_STRING, .len = PNETID_LEN },
	[SMC_PNETID_ETHNAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[SMC_PNETID_IBNAME] = { .type = NLA_NUL_STRING, .len = IB_DEVICE_NAME_MAX - 1 },
	[SMC_PNETID_IBPORT] = { .type = NLA_U8 },
};

#define LAX (GENL_DONT_VALIDATE_STRICT | GENL_DONT_VALIDATE_DUMP)
/*
 * An id reaches devices of other namespaces: as with net/smc this is not for the administrator of
 * one namespace.
 */
#define CHANGE(name) { .cmd = (name), .validate = LAX, .flags = GENL_ADMIN_PERM, \
		       .doit = change }

static const struct genl_ops family_ops[] = {
	{ .cmd = SMC_PNETID_GET, .validate = LAX, .doit = find, .dumpit = dump },
	CHANGE(SMC_PNETID_ADD),
	CHANGE(SMC_PNETID_DEL),
	CHANGE(SMC_PNETID_FLUSH),
};

static struct genl_family family = {
	.name = SMCR_GENL_FAMILY_NAME,
	.version = SMCR_GENL_FAMILY_VERSION,
	.maxattr = SMC_PNETID_MAX,
	.policy = family_policy,
	.netnsok = true,
	/* A dump keeps no user of another family waiting. */
	.parallel_ops = true,
	.module = THIS_MODULE,
	.ops = family_ops,
	.n_ops = ARRAY_SIZE(family_ops),
	.resv_start_op = SMC_PNETID_FLUSH + 1,
};

static int put(struct sk_buff *skb, u32 portid, u32 seq, const void *body, size_t len)
{
	return rdma_sock_genl_append(skb, portid, seq, &family, SMC_PNETID_GET, body, len);
}

int rdma_sock_helper_pnetid_put(struct sk_buff *skb, const struct netlink_callback *cb,
				const void *body, size_t len)
{
	return put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, body, len);
}

int rdma_sock_helper_pnetid_reply(void *context, const void *body, size_t len)
{
	struct reply *reply = context;

	return put(reply->skb, reply->info->snd_portid, reply->info->snd_seq, body, len);
}

int rdma_sock_helper_pnetid_register(int (*dump_fn)(struct sk_buff *skb,
						    struct netlink_callback *cb),
				     int (*find_fn)(struct net *net, const char *id,
						    void *reply),
				     int (*change_fn)(struct net *net, u8 command,
						      const char *id, const char *netdev,
						      const char *device, const u8 *port))
{
	family_dump = dump_fn;
	family_find = find_fn;
	family_change = change_fn;
	return genl_register_family(&family);
}

void rdma_sock_helper_pnetid_unregister(void)
{
	genl_unregister_family(&family);
}
