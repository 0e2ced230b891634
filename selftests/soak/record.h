/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The outcome of each connection: a table in a file that the programs and their parents write, so
 * that a killed program leaves its part. scripts/vmlib/soak.py reads it.
 */

#ifndef RS_RECORD_H
#define RS_RECORD_H

#include <fcntl.h>
#include <linux/types.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum state { UNUSED, BEGUN, OPEN, OVER };
enum mode { UNKNOWN, BY_RDMA, BY_TCP };

#define ALL_RIGHT (~0ULL)
#define RECORDS 16384

/* One end of a connection. Read by scripts/vmlib/soak.py. */
struct record {
	__u64 seed;
	__u64 begin;		/* ms since 1970 */
	__u64 end;
	__u64 progress;		/* time of the last octet, ms since 1970 */
	__u64 sent;		/* octets that calls have accepted */
	__u64 sending;		/* octets of the current call */
	__u64 got;		/* received octets that are right */
	__u64 wrong_at;		/* position of the first wrong octet; ALL_RIGHT: none */
	__u32 server;
	__u32 state;
	__u32 mode;
	__u32 ending;
	__s32 connect_error;
	__s32 send_error;
	__s32 receive_error;
	__u32 saw_end;		/* end of the peer's stream */
	__u32 shut;		/* own stream ended in order */
	__u32 stuck;
	__u32 retries;		/* calls that failed for lack of memory */
	__u32 pid;
};

static inline __u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000ULL + t.tv_nsec / 1000000;
}

/* Maps the table of a file, which may exist; NULL with errno. */
static inline struct record *open_records(const char *path)
{
	const size_t size = RECORDS * sizeof(struct record);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	void *map;

	if (fd < 0 || ftruncate(fd, size))
		return NULL;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/* A new record; NULL if the table is full. */
static inline struct record *new_record(struct record *table, int server)
{
	static int next;
	struct record *record;

	if (next == RECORDS)
		return NULL;
	record = &table[next++];
	record->server = server;
	record->begin = now_ms();
	record->progress = record->begin;
	record->wrong_at = ALL_RIGHT;
	record->state = BEGUN;
	return record;
}

#endif
