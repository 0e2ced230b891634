// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers of each processor, as functions Rust can call.
 *
 * Rust has the pointers without their address space.
 */

#include "helpers_percpu.h"

#include <linux/cache.h>
#include <linux/kconfig.h>
#include <linux/percpu.h>
#include <linux/smp.h>

static u64 __percpu *to_percpu(const void *numbers)
{
	return (u64 __percpu *)(__force unsigned long)numbers;
}

/* That many numbers for each possible processor, all 0, in cache lines of their own. */
void *rdma_sock_helper_percpu_alloc(size_t count)
{
	size_t size;

	if (!count || count > PCPU_MIN_UNIT_SIZE / sizeof(u64))
		return NULL;
	size = ALIGN(count * sizeof(u64), SMP_CACHE_BYTES);
	return (void *)(__force unsigned long)__alloc_percpu(size, SMP_CACHE_BYTES);
}

void rdma_sock_helper_percpu_free(void *numbers)
{
	free_percpu(to_percpu(numbers));
}

/* Neither a migration nor an interrupt comes in between. */
void rdma_sock_helper_percpu_add(void *numbers, size_t index, u64 value)
{
	this_cpu_add(to_percpu(numbers)[index], value);
}

/* The sum over all processors, also those that are offline now. */
u64 rdma_sock_helper_percpu_sum(const void *numbers, size_t index)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(to_percpu(numbers) + index, cpu));
	return sum;
}

#if IS_ENABLED(CONFIG_KUNIT)
bool rdma_sock_helper_test_percpu_is_aligned(const void *numbers)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		unsigned long address = (unsigned long)per_cpu_ptr(to_percpu(numbers), cpu);

		if (!IS_ALIGNED(address, SMP_CACHE_BYTES))
			return false;
	}
	return true;
}

/* Calls it on each processor that is online, in an interrupt, and waits for that. */
void rdma_sock_helper_test_on_each_cpu(void (*function)(void *), void *context)
{
	on_each_cpu(function, context, true);
}
#endif
