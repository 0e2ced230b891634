/* SPDX-License-Identifier: GPL-2.0 */
/* Sides, queue pairs and rings that a program fills by hand. */
#ifndef USER_RINGS_H
#define USER_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <kselftest.h>
#include <rdma/rdma_user_rxe.h>

/* Octets of each side's region. */
#define REGION 65536
/* Work requests of each queue: rings of 16 slots. */
#define DEPTH 15
/* The local key of the device, which only the kernel may use. */
#define LOCAL_DMA_KEY 1
/* Makes a key of no region of a key: its neighbours may be those of regions. */
#define UNKNOWN_KEY 0x80000000u
/* A ring of the calling process. */
struct ring {
	struct rxe_queue_buf *buf;
	size_t len;
	off_t offset;
};

/* A device with what a queue pair needs. */
struct side {
	struct ibv_context *ctx;
	int gid_index;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *memory;
	/* Of its next completion queues, or NULL. */
	struct ibv_comp_channel *channel;
};

/* A shared receive queue with its ring. */
struct shared {
	struct ibv_srq *srq;
	struct ring receives;
};

/* A queue pair with its rings. */
struct end {
	struct side *side;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ring sends, receives, completions;
};

extern struct side sides[2];

/* Prints what differs, and ends the program. */
_Noreturn void fail(const char *format, ...);

#define CHECK(condition) do {						\
	if (!(condition))						\
		fail("%s:%d: %s (errno %d)", __FILE__, __LINE__, #condition, errno); \
} while (0)

/* The mappings of rings of this process, in the order of their addresses. */
int rings(struct ring *found, int room);
/* The ring with slots of that size that was not there before. */
struct ring new_ring(const struct ring *before, int count, unsigned int bits);

void open_side(struct side *side, const char *name, int gid_index);

/* A shared receive queue with DEPTH work requests, in the protection domain of a side. */
struct shared new_shared(struct side *side);
void free_shared(struct shared *shared);

/* A queue pair in state INIT; its receive requests come from `shared` unless that is NULL. */
struct end new_sharing_end(struct side *side, enum ibv_qp_type type, struct shared *shared);
struct end new_end(struct side *side, enum ibv_qp_type type);
/* One whose requests complete visibly only if they ask for it. */
struct end new_quiet_end(struct side *side);
/* The MTU of connections that are made from now on. */
extern enum ibv_mtu path_mtu;
/* Attributes for both steps of a connection to the peer. */
struct ibv_qp_attr way_to(struct end *end, struct end *peer);
/* One by one: state RTR, state RTS. */
void begin_to_receive(struct end *end, struct ibv_qp_attr attr);
void begin_to_send(struct end *end, struct ibv_qp_attr attr);
/* Two ends; the second one is connected. Attributes for the first one, which gives up soon. */
struct ibv_qp_attr new_hasty_pair(struct end *ends, int timeout, int retries);
/* Both. */
void connect_end(struct end *end, struct end *peer);
void set_state(struct end *end, enum ibv_qp_state state);
/* Those that the queue pair has now. */
struct ibv_qp_attr attributes(struct end *end);
void join(struct end *ends);
void new_pair(struct end *ends);
void free_end(struct end *end);
void free_pair(struct end *ends);

double now(void);
/* The next completion; a status of -1 if there is none in time. */
struct ibv_wc completion(struct end *end, double seconds);
/* One system call; an errno. */
int ring_doorbell(struct end *end, uint32_t count);

struct rxe_send_wqe *send_slot(struct end *end);
/* A request that is in order: a SEND of 8 octets. */
struct rxe_send_wqe *prepare(struct end *end);
/* A request to memory of the peer, to or from the begin of the own memory, which may be longer. */
struct rxe_send_wqe *prepare_remote(struct end *end, int opcode, uint64_t addr, uint32_t key,
				    uint32_t len);
void produce(struct rxe_queue_buf *buf);
/* Posts the prepared request. */
void post_prepared(struct end *end);
void post_receive(struct end *end, uint64_t addr, uint32_t len, uint32_t lkey, uint32_t count);
/* Posts the prepared request and checks how it completes. */
void expect_send(struct end *end, int status, const char *what, uint32_t value);
/* The next completion, with that status and number. */
struct ibv_wc expect_completion(struct end *end, int status, uint64_t id, const char *what);
/* A pair that nothing was done to still carries data. */
void expect_service(void);
/* The number of the next event of that side's device; -1 if there is none in time. */
int next_event(struct side *side, struct ibv_async_event *event, int milliseconds);
/* The same for an event that must be about that queue pair. */
int next_event_of(struct end *end, int milliseconds);
/* Whether there is any event in time, which is taken. */
bool has_event(struct side *side, int milliseconds);
/* Waits for an event of that kind; others may come before it. */
void await_event(struct side *side, struct ibv_async_event *event, int type);
/* Waits until the caller of the program has changed something. */
void await_change(void);
/* Fills rings of the two queue pairs with anything, until stop_scribbling(). */
void start_scribbling(struct end *ends);
void stop_scribbling(void);

/* Cases of the other files. */
void shared_queues(void);
void shared_limits(void);
void shared_sizes(void);
void shared_hostile(void);
void resizes(void);
void unreliable_messages(void);
void unreliable_refusals(void);
void unreliable_failures(void);
void unreliable_changes(void);
void unreliable_losses(void);
void unreliable_paced(void);
void unreliable_stuck(void);
void windows_of_type_1(void);
void windows_of_type_2(void);
void windows_refused(void);
void windows_of_the_dead(void);
void flushes(void);
void words(void);
void late_receives(void);
void soon_asked(void);
void full_completions(void);
void late_octets(void);
void late_completions(void);
void silent_states(void);
void states(void);
void marked(void);
void large_rings(void);
void all_attributes(void);
void creation(void);
void refusals(void);
void immediates(void);
void lost_keys(void);
void many_reads(void);
void reads_behind_writes(void);
void atomics(void);
void completion_indices(void);
void armed_timers(void);
void solicited(void);
void failed_rings(void);
void unmapped_memory(void);
void overlaps(void);
void polled_octets(void);
void ranges(void);
void rights(void);
void kernel_addresses(void);
void queue_pair_events(void);
void port_events(void);
void lost_address(void);
void smaller_mtu(void);
void stream(void);
void packets_under_way(void);
void reasons(void);
void long_writes(void);
void long_reads(void);
void short_writes(void);
void shared_runs(void);
void lost_peers(void);
void fair_pairs(void);
void nowhere(void);
void lost_route(void);

#endif /* USER_RINGS_H */
