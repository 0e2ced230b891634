/* SPDX-License-Identifier: GPL-2.0 */
/* Inline functions and macros of the kernel core, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_SYS_H
#define RDMA_SOCK_HELPERS_SYS_H

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/* linux/spinlock.h */
void rdma_sock_helper_spin_lock_bh(spinlock_t *lock);
void rdma_sock_helper_spin_unlock_bh(spinlock_t *lock);
int rdma_sock_helper_spin_trylock_bh(spinlock_t *lock);
void rdma_sock_helper_assert_spin_locked(spinlock_t *lock);
unsigned long rdma_sock_helper_spin_lock_irqsave(spinlock_t *lock);
void rdma_sock_helper_spin_unlock_irqrestore(spinlock_t *lock,
					     unsigned long flags);
bool rdma_sock_helper_spin_trylock_irqsave(spinlock_t *lock,
					   unsigned long *flags);

/* linux/workqueue.h */
struct workqueue_struct *rdma_sock_helper_alloc_workqueue(const char *name);
struct workqueue_struct *
rdma_sock_helper_alloc_bh_workqueue(const char *name);
struct workqueue_struct *
rdma_sock_helper_alloc_ordered_workqueue(const char *name);
bool rdma_sock_helper_softirqs_off(void);
void rdma_sock_helper_softirqs_on(void);
bool rdma_sock_helper_softirqs_wake(void);
bool rdma_sock_helper_mod_delayed_work(struct workqueue_struct *wq,
				       struct delayed_work *work,
				       unsigned long delay);
bool rdma_sock_helper_work_due(struct delayed_work *work);
bool rdma_sock_helper_work_running(struct delayed_work *work);

/* linux/module.h */
bool rdma_sock_helper_module_get(void);
void rdma_sock_helper_module_put(void);

/* linux/random.h */
u32 rdma_sock_helper_random_u32(void);
bool rdma_sock_helper_is_exiting(void);

/* linux/utsname.h */
void rdma_sock_helper_hostname(char *name, size_t size);

/* linux/jiffies.h */
unsigned long rdma_sock_helper_nsecs_to_jiffies(u64 nsecs);

/* linux/timekeeping.h */
s64 rdma_sock_helper_ktime_get_coarse(void);
u64 rdma_sock_helper_real_ns(void);

/* linux/rcupdate.h */
void rdma_sock_helper_synchronize_rcu(void);

#endif /* RDMA_SOCK_HELPERS_SYS_H */
