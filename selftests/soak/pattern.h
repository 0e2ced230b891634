/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Streams whose octets follow from a seed and their position, so that any part can be made and
 * compared on its own.
 */

#ifndef RS_PATTERN_H
#define RS_PATTERN_H

#include <linux/types.h>
#include <stddef.h>
#include <string.h>

/* Mixes all bits of a number. */
static inline __u64 mixed(__u64 x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Makes octets of a stream, from a position on. */
static inline void fill_from(void *to, size_t size, __u64 seed, __u64 place)
{
	unsigned char *p = to;
	__u64 word;

	while (size) {
		size_t within = place % 8, n = 8 - within;

		word = mixed(seed + place / 8) >> within * 8;
		if (n > size)
			n = size;
		memcpy(p, &word, n);
		p += n;
		place += n;
		size -= n;
	}
}

/* The number of octets that equal the stream, from a position on. */
static inline size_t same_from(const void *octets, size_t size, __u64 seed, __u64 place)
{
	const unsigned char *p = octets;
	unsigned char wanted[4096];
	size_t same = 0;

	while (same < size) {
		size_t n = size - same < sizeof(wanted) ? size - same : sizeof(wanted);

		fill_from(wanted, n, seed, place + same);
		if (memcmp(wanted, p + same, n)) {
			for (n = 0; wanted[n] == p[same + n]; n++)
				;
			return same + n;
		}
		same += n;
	}
	return same;
}

/* A series of numbers that a seed determines. */
struct dice {
	__u64 state;
};

static inline __u64 roll(struct dice *dice)
{
	return mixed(dice->state++);
}

/* A random number below `bound`. */
static inline __u64 below(struct dice *dice, __u64 bound)
{
	return roll(dice) % bound;
}

static inline int percent(struct dice *dice, unsigned int chance)
{
	return below(dice, 100) < chance;
}

#endif
