/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers of each processor, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_PERCPU_H
#define RDMA_SOCK_HELPERS_PERCPU_H

#include <linux/types.h>

void *rdma_sock_helper_percpu_alloc(size_t count);
void rdma_sock_helper_percpu_free(void *numbers);
void rdma_sock_helper_percpu_add(void *numbers, size_t index, u64 value);
u64 rdma_sock_helper_percpu_sum(const void *numbers, size_t index);

bool rdma_sock_helper_test_percpu_is_aligned(const void *numbers);
void rdma_sock_helper_test_on_each_cpu(void (*function)(void *), void *context);

#endif /* RDMA_SOCK_HELPERS_PERCPU_H */
