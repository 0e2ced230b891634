/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plan of a connection, for its two programs. It follows from the seed of the connection, so
 * that both ends know it and a run can be repeated.
 */

#ifndef RS_PLAN_H
#define RS_PLAN_H

#include <stdbool.h>

#include "kind.h"
#include "pattern.h"

/* Ways to write, and to read. */
enum way { PLAIN, VECTOR, POLLED, SPLICED, RING, SPECIAL, OTHER, WAYS };

#define MORE SPECIAL	/* writers: MSG_MORE */
#define PEEK SPECIAL	/* readers: MSG_PEEK first */
#define EDGE OTHER	/* readers: epoll, edge-triggered */
/* Writers of OTHER: without a copy, or with urgent octets. */

enum ending {
	ENDS_WELL,	/* shutdown, all is read, close */
	CLOSES,		/* close after the last octet */
	LINGERS,	/* close with a linger time, which waits */
	ABORTS,		/* close with a linger time of 0 */
	IS_KILLED,	/* SIGKILL */
	STOPS,		/* exit with octets unread */
};

/* The kinds of the sockets of a connection. */
enum sockets { SMC4, SMC6, FAMILY4, FROM_TCP, TO_TCP, SOCKETS };

struct side_plan {
	enum way writes;
	enum way reads;
	bool lends;		/* OTHER: without a copy; else urgent octets */
	bool nodelay;
	bool corks;
	bool fails;		/* its allocations may fail by injection */
	int sndbuf;		/* 0: the default */
	int rcvbuf;
	__u64 largest_part;
	unsigned int pause;	/* longest pause in ms, at random times; 0: none */
	enum ending ending;
	__u64 ends_after;	/* octets, for an early end */
};

struct plan {
	__u64 seed;
	enum sockets sockets;
	__u64 size[2];		/* octets to write: by the client, by the server */
	unsigned int rounds;	/* requests and answers; 0: both streams at once */
	struct side_plan side[2];
};

/* Limits for all connections of a round, from the driver. */
struct limits {
	__u64 largest;		/* octets of a stream */
	bool ipv6;
};

static inline __u64 some_size(struct dice *dice, __u64 largest)
{
	static const struct {
		unsigned int share;
		__u64 size;
	} classes[] = {
		{ 5, 1 }, { 15, 200 }, { 40, 64 << 10 }, { 30, 1 << 20 }, { 10, 16 << 20 },
	};
	unsigned int chance = below(dice, 100), n = 0;

	while (chance >= classes[n].share)
		chance -= classes[n++].share;
	return below(dice, classes[n].size < largest ? classes[n].size : largest);
}

static inline void plan_side(struct side_plan *side, struct dice *dice)
{
	static const __u64 parts[] = { 16, 1000, 20000, 70000, 300000 };

	side->writes = below(dice, WAYS);
	side->reads = below(dice, WAYS);
	side->lends = percent(dice, 50);
	side->nodelay = percent(dice, 30);
	side->corks = percent(dice, 10);
	side->fails = percent(dice, 50);
	side->sndbuf = percent(dice, 30) ? 4096 << below(dice, 8) : 0;
	side->rcvbuf = percent(dice, 30) ? 4096 << below(dice, 8) : 0;
	side->largest_part = parts[below(dice, 5)];
	side->pause = percent(dice, 30) ? 1 + below(dice, 100) : 0;
	side->ending = ENDS_WELL;
	side->ends_after = 0;
}

static inline struct plan plan_of(__u64 seed, const struct limits *limits)
{
	struct dice dice = { .state = mixed(seed) };
	struct plan plan = { .seed = seed };
	int odd = below(&dice, 2), side;

	plan.sockets = below(&dice, SOCKETS * 2);
	if (plan.sockets >= SOCKETS)
		plan.sockets = SMC4;
	if (plan.sockets == SMC6 && !limits->ipv6)
		plan.sockets = SMC4;
	for (side = 0; side < 2; side++) {
		plan_side(&plan.side[side], &dice);
		plan.size[side] = percent(&dice, 20) ? 0 : some_size(&dice, limits->largest);
	}
	for (side = 0; side < 2; side++) {
		/* Many tiny parts would take all the time of a round. */
		if (plan.side[side].largest_part < 1000 && plan.size[side] > 50000)
			plan.size[side] %= 50000;
		if (plan.side[side].largest_part < 20000 && plan.size[side] > 1000000)
			plan.size[side] %= 1000000;
		/* TCP's splice does not continue after an urgent octet. */
		if (plan.side[side].writes == OTHER && !plan.side[side].lends &&
		    plan.side[!side].reads == SPLICED)
			plan.side[!side].reads = PLAIN;
	}
	if (percent(&dice, 15))
		plan.rounds = 1 + below(&dice, 300);
	else if (percent(&dice, 25))
		plan.side[odd].ending = CLOSES + below(&dice, STOPS);
	switch (plan.side[odd].ending) {
	case ENDS_WELL:
		break;
	case CLOSES:
	case LINGERS:
		/* A close with unread octets would reset the data in flight. */
		plan.size[!odd] = 0;
		break;
	default:
		plan.side[odd].ends_after = below(&dice, plan.size[0] + plan.size[1] + 1);
	}
	return plan;
}

/* The kind of connection for the sockets of a plan. */
static inline struct kind kind_of(enum sockets sockets)
{
	struct kind kind = { AF_INET, IPPROTO_SMC, AF_INET, { SMC, SMC } };

	switch (sockets) {
	case SMC6:
		kind.family = AF_INET6;
		kind.ip = AF_INET6;
		break;
	case FAMILY4:
		kind.family = AF_SMC;
		kind.protocol = 0;
		break;
	case FROM_TCP:
		kind.engine[CLIENT] = TCP;
		break;
	case TO_TCP:
		kind.engine[SERVER] = TCP;
		break;
	default:
		break;
	}
	return kind;
}

#endif
