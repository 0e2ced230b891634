// SPDX-License-Identifier: GPL-2.0
/*
 * Turns the TCP sockets that selected programs ask for into sockets of SMC or SDP.
 *
 * The kernel calls update_socket_protocol() at the start of socket(2) with the arguments of the
 * call, so that a program like this one can change the protocol. The program answers the protocol
 * of the selector for TCP stream sockets of the tasks that the maps select, and leaves all else
 * alone: a result of 0 lets the kernel go on as if the program were not there.
 *
 * A socket is only turned while the kernel has the protocol in its table of protocols. Otherwise
 * socket(2) would fail in every selected program as soon as the module is unloaded.
 */

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* From the socket API; the C library's headers do not compile for this target. */
#define AF_INET		2
#define AF_INET6	10
#define SOCK_STREAM	1
#define SOCK_TYPE_MASK	0xf
#define IPPROTO_TCP	6

#define COMM_LEN	16
#define MAX_SELECTORS	1024
/* Far above what kernels register for one socket type; bounds the walk for the verifier. */
#define MAX_PROTOCOLS	64
/* Deepest cgroup looked at. */
#define MAX_CGROUP_DEPTH	64
/* Ancestors of a process that are looked at. */
#define MAX_PROCESS_DEPTH	32
/* Nanoseconds of a clock tick, in which /proc counts the start of a process. */
#define TICK		10000000ULL
/* Protocols of a selector. */
#define MAX_WANTED	2

/* Layouts that the tool writes and reads: keep src/accel/pinned.rs in step, and ACCEL_ABI there. */
struct accel_config {
	__u32 abi;
	__u32 unguarded;
	/* Addresses of the list heads of stream protocols: inetsw[1] and inetsw6[1]. */
	__u64 protocols[2];
};

struct accel_selector {
	/* Sockets that it has turned. */
	__u64 sockets;
	/* Protocols in the order in which they are looked for; 0 is none. */
	__u32 wanted[MAX_WANTED];
};

/* A process: its number, and its start in clock ticks, as numbers are used again. */
struct accel_process {
	__u64 start;
	__u32 pid;
	__u32 unused;
};

enum accel_counter {
	COUNTER_TURNED,
	COUNTER_UNREGISTERED,
	COUNTER_NUM,
};

/* What is needed of the kernel's types; the loader finds the real offsets. */
struct list_head {
	struct list_head *next;
} __attribute__((preserve_access_index));

struct inet_protosw {
	struct list_head list;
	unsigned short protocol;
} __attribute__((preserve_access_index));

struct net {
	__u64 net_cookie;
} __attribute__((preserve_access_index));

struct nsproxy {
	struct net *net_ns;
} __attribute__((preserve_access_index));

struct task_struct {
	struct nsproxy *nsproxy;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	int tgid;
	char comm[COMM_LEN];
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct accel_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SELECTORS);
	__type(key, __u64);
	__type(value, struct accel_selector);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SELECTORS);
	__type(key, char[COMM_LEN]);
	__type(value, struct accel_selector);
} comms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SELECTORS);
	__type(key, struct accel_process);
	__type(value, struct accel_selector);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SELECTORS);
	__type(key, __u64);
	__type(value, struct accel_selector);
} namespaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTER_NUM);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static void count(__u32 which)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);

	if (value)
		*value += 1;
}

/* The selector by name: that of the thread, or that of the program's first thread. */
static struct accel_selector *select_by_comm(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	char comm[COMM_LEN] = {};
	struct accel_selector *selector;

	bpf_get_current_comm(comm, sizeof(comm));
	selector = bpf_map_lookup_elem(&comms, comm);
	if (selector)
		return selector;

	__builtin_memset(comm, 0, sizeof(comm));
	BPF_CORE_READ_STR_INTO(&comm, task, group_leader, comm);
	return bpf_map_lookup_elem(&comms, comm);
}

/* The selector by process: that of the task's process or of one that it descends from. */
static struct accel_selector *select_by_process(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	int level;

	task = BPF_CORE_READ(task, group_leader);
	for (level = 0; task && level < MAX_PROCESS_DEPTH; level++) {
		struct accel_process process = {};
		struct accel_selector *selector;

		process.pid = BPF_CORE_READ(task, tgid);
		process.start = BPF_CORE_READ(task, start_boottime) / TICK;
		/* The idle task is its own parent. */
		if (!process.pid)
			break;
		selector = bpf_map_lookup_elem(&processes, &process);
		if (selector)
			return selector;
		task = BPF_CORE_READ(task, real_parent, group_leader);
	}
	return NULL;
}

/* The selector by cgroup: that of the task's cgroup or of one above it. */
static struct accel_selector *select_by_cgroup(void)
{
	int level;

	for (level = 0; level < MAX_CGROUP_DEPTH; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);
		struct accel_selector *selector;

		if (!id)
			break;
		selector = bpf_map_lookup_elem(&cgroups, &id);
		if (selector)
			return selector;
	}
	return NULL;
}

/* The selector by the task's network namespace. */
static struct accel_selector *select_by_namespace(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 cookie = BPF_CORE_READ(task, nsproxy, net_ns, net_cookie);

	return bpf_map_lookup_elem(&namespaces, &cookie);
}

/* Is a protocol in the list of stream protocols that begins at address head? */
static bool is_registered(__u64 head, __u32 wanted)
{
	const __u64 list_offset = bpf_core_field_offset(struct inet_protosw, list);
	__u64 pos = head;
	int i;

	if (!head)
		return false;
	for (i = 0; i < MAX_PROTOCOLS; i++) {
		struct list_head *entry = (void *)pos;
		struct inet_protosw *protosw;
		unsigned short protocol = 0;

		if (bpf_core_read(&pos, sizeof(pos), &entry->next) || pos == head)
			return false;
		protosw = (void *)(pos - list_offset);
		bpf_core_read(&protocol, sizeof(protocol), &protosw->protocol);
		if (protocol == wanted)
			return true;
	}
	return false;
}

/* The protocol for a socket of a selected program; 0 if the kernel has none of the wanted ones. */
static __u32 protocol_of(struct accel_selector *selector, struct accel_config *cfg, bool inet6)
{
	int i;

	for (i = 0; i < MAX_WANTED; i++) {
		__u32 wanted = selector->wanted[i];

		if (!wanted)
			break;
		if (cfg->unguarded || is_registered(cfg->protocols[inet6], wanted))
			return wanted;
	}
	return 0;
}

SEC("fmod_ret/update_socket_protocol")
int BPF_PROG(rdma_sock_accel, int family, int type, int protocol)
{
	struct accel_config *cfg;
	struct accel_selector *selector;
	__u32 zero = 0, chosen;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	/* The hook sees the type as the program gave it, with SOCK_NONBLOCK and SOCK_CLOEXEC. */
	if ((type & SOCK_TYPE_MASK) != SOCK_STREAM)
		return 0;
	if (protocol && protocol != IPPROTO_TCP)
		return 0;

	selector = select_by_comm();
	if (!selector)
		selector = select_by_process();
	if (!selector)
		selector = select_by_cgroup();
	if (!selector)
		selector = select_by_namespace();
	if (!selector)
		return 0;

	cfg = bpf_map_lookup_elem(&config, &zero);
	if (!cfg)
		return 0;
	chosen = protocol_of(selector, cfg, family == AF_INET6);
	if (!chosen) {
		count(COUNTER_UNREGISTERED);
		return 0;
	}

	__sync_fetch_and_add(&selector->sockets, 1);
	count(COUNTER_TURNED);
	return chosen;
}

char _license[] SEC("license") = "GPL";
