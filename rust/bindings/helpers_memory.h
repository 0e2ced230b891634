/* SPDX-License-Identifier: GPL-2.0 */
/* Memory and what it is charged to, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_MEMORY_H
#define RDMA_SOCK_HELPERS_MEMORY_H

#include <linux/mm_types.h>
#include <net/sock.h>

struct mem_cgroup;

/* linux/memcontrol.h */
struct mem_cgroup *rdma_sock_helper_sk_memcg(const struct sock *sk);
unsigned long rdma_sock_helper_memcg_limit(struct mem_cgroup *memcg);
void rdma_sock_helper_memcg_get(struct mem_cgroup *memcg);
void rdma_sock_helper_memcg_put(struct mem_cgroup *memcg);

/* linux/gfp.h, linux/mm.h */
struct page *rdma_sock_helper_alloc_block(unsigned int order, bool zero, struct mem_cgroup *memcg);
void *rdma_sock_helper_page_address(struct page *page);
unsigned long rdma_sock_helper_totalram_pages(void);

#endif /* RDMA_SOCK_HELPERS_MEMORY_H */
