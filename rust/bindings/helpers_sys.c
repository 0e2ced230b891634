// SPDX-License-Identifier: GPL-2.0
/* Inline functions and macros of the kernel core, as functions Rust can call. */

#include "helpers_sys.h"

#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/utsname.h>

void rdma_sock_helper_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

void rdma_sock_helper_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

int rdma_sock_helper_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

/* For kernels whose Rust crate has no SpinLockIrq. */
unsigned long rdma_sock_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void rdma_sock_helper_spin_unlock_irqrestore(spinlock_t *lock,
					     unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

bool rdma_sock_helper_spin_trylock_irqsave(spinlock_t *lock,
					   unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void rdma_sock_helper_assert_spin_locked(spinlock_t *lock)
{
	lockdep_assert_held(lock);
}

struct workqueue_struct *rdma_sock_helper_alloc_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_UNBOUND, 0, name);
}

/* Holds softirqs of this processor off, unless that is so already, or interrupts are off. */
bool rdma_sock_helper_softirqs_off(void)
{
	if (irqs_disabled() || in_interrupt())
		return false;
	local_bh_disable();
	return true;
}

/* Undoes a call of the function above that returned true. Softirqs that are due run at once. */
void rdma_sock_helper_softirqs_on(void)
{
	local_bh_enable();
}

/* Whether the kernel wakes ksoftirqd for a softirq that is raised here. */
bool rdma_sock_helper_softirqs_wake(void)
{
	return irqs_disabled() && !in_interrupt();
}

struct workqueue_struct *rdma_sock_helper_alloc_bh_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_BH | WQ_PERCPU, 0, name);
}

struct workqueue_struct *
rdma_sock_helper_alloc_ordered_workqueue(const char *name)
{
	/* Work items of storage run here, and free memory. */
	return alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM, name);
}

bool rdma_sock_helper_mod_delayed_work(struct workqueue_struct *wq,
				       struct delayed_work *work,
				       unsigned long delay)
{
	return mod_delayed_work(wq, work, delay);
}

/* Whether the work waits on its queue; not for its timer. */
bool rdma_sock_helper_work_due(struct delayed_work *work)
{
	unsigned long due = WORK_STRUCT_PENDING | WORK_STRUCT_PWQ;

	return (READ_ONCE(*work_data_bits(&work->work)) & due) == due;
}

bool rdma_sock_helper_work_running(struct delayed_work *work)
{
	return work_busy(&work->work) & WORK_BUSY_RUNNING;
}

bool rdma_sock_helper_module_get(void)
{
	return try_module_get(THIS_MODULE);
}

void rdma_sock_helper_module_put(void)
{
	module_put(THIS_MODULE);
}

bool rdma_sock_helper_is_exiting(void)
{
	return current->flags & PF_EXITING;
}

u32 rdma_sock_helper_random_u32(void)
{
	return get_random_u32();
}

void rdma_sock_helper_hostname(char *name, size_t size)
{
	/* Its lock is not for modules: a mixture of two names is possible. */
	strscpy(name, init_uts_ns.name.nodename, size);
}

unsigned long rdma_sock_helper_nsecs_to_jiffies(u64 nsecs)
{
	return nsecs_to_jiffies(nsecs);
}

s64 rdma_sock_helper_ktime_get_coarse(void)
{
	return ktime_to_ns(ktime_get_coarse());
}

u64 rdma_sock_helper_real_ns(void)
{
	return ktime_get_real_ns();
}

void rdma_sock_helper_synchronize_rcu(void)
{
	synchronize_rcu();
}
