// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of the kernel that are inline or need a macro, for Rust: memory and memory cgroups.
 */

#include <linux/cgroup.h>
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "helpers_memory.h"

/* With a reference; NULL for the root, which is not limited. */
struct mem_cgroup *rdma_sock_helper_sk_memcg(const struct sock *sk)
{
	struct mem_cgroup *memcg = NULL;

#ifdef CONFIG_MEMCG
	/* Set once, before or at the time a program gets the socket; the sock holds a reference. */
	memcg = READ_ONCE(sk->sk_memcg);
	if (memcg)
		css_get(&memcg->css);
#endif
	return memcg;
}

/* In pages: the least of the cgroup and of all that it is in. */
unsigned long rdma_sock_helper_memcg_limit(struct mem_cgroup *memcg)
{
	unsigned long limit = ULONG_MAX;

#ifdef CONFIG_MEMCG
	for (; memcg; memcg = parent_mem_cgroup(memcg)) {
		limit = min(limit, READ_ONCE(memcg->memory.max));
		limit = min(limit, READ_ONCE(memcg->memory.high));
	}
#endif
	return limit;
}

void rdma_sock_helper_memcg_get(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	css_get(&memcg->css);
#endif
}

void rdma_sock_helper_memcg_put(struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	css_put(&memcg->css);
#endif
}

/*
 * Work items of the kernel belong to no cgroup, so the owner is named. With __GFP_NORETRY a charge
 * that does not fit fails, and no task is killed for it.
 */
struct page *rdma_sock_helper_alloc_block(unsigned int order, bool zero, struct mem_cgroup *memcg)
{
	struct mem_cgroup *before = set_active_memcg(memcg);
	struct page *page;

	page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY | __GFP_COMP |
			   (zero ? __GFP_ZERO : 0), order);
	set_active_memcg(before);
	return page;
}

void *rdma_sock_helper_page_address(struct page *page)
{
	return page_address(page);
}

unsigned long rdma_sock_helper_totalram_pages(void)
{
	return totalram_pages();
}
