// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family of SMC, as functions Rust can call: the numbers are those of
 * include/uapi/linux/smc.h, which a kernel without CONFIG_SMC has as well.
 */

#include "helpers_genl.h"
#include "helpers_netlink.h"

#include <linux/smc.h>
#include <net/genetlink.h>

static int (*family_dump)(struct sk_buff *skb, struct netlink_callback *cb);
static int (*family_change)(struct net *net, u8 command, const void *value,
			    size_t len);

static int dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return family_dump(skb, cb);
}

static int change(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *value = info->attrs ? info->attrs[1] : NULL;

	return family_change(genl_info_net(info), info->genlhdr->cmd,
			     value ? nla_data(value) : NULL,
			     value ? nla_len(value) : 0);
}

static const struct nla_policy no_policy[] = {
	[1] = { .type = NLA_REJECT },
};

static const struct nla_policy eid_policy[] = {
	[SMC_NLA_EID_TABLE_ENTRY] = { .type = NLA_STRING, .len = SMC_MAX_EID_LEN },
};

#define DUMP(name) { .cmd = (name), .dumpit = dump }
/* Settings are per namespace: its administrator may change them. */
#define CHANGE(name) { .cmd = (name), .flags = GENL_UNS_ADMIN_PERM, .doit = change }
#define CHANGE_EID(name) { .cmd = (name), .flags = GENL_UNS_ADMIN_PERM, \
			   .doit = change, .policy = eid_policy, \
			   .maxattr = ARRAY_SIZE(eid_policy) - 1 }

/* A tool takes a command that is missing for a kernel without SMC. */
static const struct genl_ops family_ops[] = {
	DUMP(SMC_NETLINK_GET_SYS_INFO),
	DUMP(SMC_NETLINK_GET_LGR_SMCR),
	DUMP(SMC_NETLINK_GET_LINK_SMCR),
	DUMP(SMC_NETLINK_GET_LGR_SMCD),
	DUMP(SMC_NETLINK_GET_DEV_SMCD),
	DUMP(SMC_NETLINK_GET_DEV_SMCR),
	DUMP(SMC_NETLINK_GET_STATS),
	DUMP(SMC_NETLINK_GET_FBACK_STATS),
	DUMP(SMC_NETLINK_DUMP_UEID),
	CHANGE_EID(SMC_NETLINK_ADD_UEID),
	CHANGE_EID(SMC_NETLINK_REMOVE_UEID),
	CHANGE(SMC_NETLINK_FLUSH_UEID),
	DUMP(SMC_NETLINK_DUMP_SEID),
	CHANGE(SMC_NETLINK_ENABLE_SEID),
	CHANGE(SMC_NETLINK_DISABLE_SEID),
	DUMP(SMC_NETLINK_DUMP_HS_LIMITATION),
	CHANGE(SMC_NETLINK_ENABLE_HS_LIMITATION),
	CHANGE(SMC_NETLINK_DISABLE_HS_LIMITATION),
};

static struct genl_family family = {
	.name = SMC_GENL_FAMILY_NAME,
	.version = SMC_GENL_FAMILY_VERSION,
	.maxattr = ARRAY_SIZE(no_policy) - 1,
	.policy = no_policy,
	.netnsok = true,
	/* A dump keeps no user of another family waiting. */
	.parallel_ops = true,
	.module = THIS_MODULE,
	.ops = family_ops,
	.n_ops = ARRAY_SIZE(family_ops),
	.resv_start_op = SMC_NETLINK_DISABLE_HS_LIMITATION + 1,
};

u8 rdma_sock_helper_genl_command(struct netlink_callback *cb)
{
	return genl_dumpit_info(cb)->op.cmd;
}

int rdma_sock_helper_genl_put(struct sk_buff *skb, const struct netlink_callback *cb,
			      u8 command, const void *body, size_t len)
{
	return rdma_sock_genl_append(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				     &family, command, body, len);
}

int rdma_sock_helper_genl_register(int (*dump_fn)(struct sk_buff *skb,
						  struct netlink_callback *cb),
				   int (*change_fn)(struct net *net, u8 command,
						    const void *value, size_t len))
{
	family_dump = dump_fn;
	family_change = change_fn;
	return genl_register_family(&family);
}

void rdma_sock_helper_genl_unregister(void)
{
	genl_unregister_family(&family);
}
