/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of all kinds of connections, and fixtures with a variant for each row.
 *
 * A new engine adds its rows here, and its mode to mode_names.
 */

#ifndef RS_VARIANTS_H
#define RS_VARIANTS_H

#include "kind.h"

/* SDP, in programs that define RS_WITH_SDP: the others are about what it does not have yet. */
#ifdef RS_WITH_SDP
#define RS_SDP_KINDS(row, fixture)							\
	; row(fixture, sdp, AF_INET, IPPROTO_SDP, AF_INET, SDP, SDP, TCP_OF_ONE_DEVICE);	\
	row(fixture, sdp6, AF_INET6, IPPROTO_SDP, AF_INET6, SDP, SDP, TCP_OF_ONE_DEVICE)
#else
#define RS_SDP_KINDS(row, fixture)
#endif

/* The families of SDP, whose sockets are those above, in programs that define RS_WITH_OFED. */
#ifdef RS_WITH_OFED
#define RS_OFED_KINDS(row, fixture)							\
	; row(fixture, ofed, AF_INET_SDP, 0, AF_INET, SDP, SDP, NONE);			\
	row(fixture, ofed6, AF_INET6_SDP, IPPROTO_TCP, AF_INET6, SDP, SDP, NONE)
#else
#define RS_OFED_KINDS(row, fixture)
#endif

/* Sockets of both protocols, in programs that define RS_WITH_DUAL: a client takes SMC-R. */
#ifdef RS_WITH_DUAL
#define RS_DUAL_KINDS(row, fixture)							\
	; row(fixture, dual, AF_INET, IPPROTO_DUAL, AF_INET, SMC, SMC, NONE);		\
	row(fixture, sdp_to_dual, AF_INET, RS_BOTH_ENDS(IPPROTO_SDP, IPPROTO_DUAL),	\
	    AF_INET, SDP, SDP, NONE)
#else
#define RS_DUAL_KINDS(row, fixture)
#endif

/*
 * Both sides ask for the same engine. The columns of a row are: variant, family and protocol number
 * of the socket() call, family of the addresses, engine of the client, engine of the server, and
 * the engine with which every call and option is compared, in the states that do without a second
 * device if the row says so.
 */
#define RS_KINDS(row, fixture)								\
	row(fixture, tcp, AF_INET, 0, AF_INET, TCP, TCP, NONE);				\
	row(fixture, inet, AF_INET, IPPROTO_SMC, AF_INET, SMC, SMC, TCP);		\
	row(fixture, inet6, AF_INET6, IPPROTO_SMC, AF_INET6, SMC, SMC, TCP);		\
	row(fixture, smc, AF_SMC, 0, AF_INET, SMC, SMC, NONE);				\
	row(fixture, smc6, AF_SMC, 1, AF_INET6, SMC, SMC, NONE)					\
	RS_SDP_KINDS(row, fixture)							\
	RS_OFED_KINDS(row, fixture)							\
	RS_DUAL_KINDS(row, fixture)

/* One side is a plain TCP socket, so that the other side falls back. The columns are the same. */
#define RS_FALLBACKS(row, fixture)							\
	row(fixture, inet_to_tcp, AF_INET, IPPROTO_SMC, AF_INET, SMC, TCP, NONE);	\
	row(fixture, tcp_to_inet6, AF_INET6, IPPROTO_SMC, AF_INET6, TCP, SMC, NONE);	\
	row(fixture, smc6_to_tcp, AF_SMC, 1, AF_INET6, SMC, TCP, NONE);			\
	row(fixture, tcp_to_smc, AF_SMC, 0, AF_INET, TCP, SMC, NONE)

#define RS_VARIANT(fixture, name, family, number, ip, client, server, ...)		\
	FIXTURE_VARIANT_ADD(fixture, name) {						\
		.kind = { family, number, ip, { client, server } },			\
	}

/* Gives a fixture the variants of the first table. */
#define RS_VARIANTS_OF_KINDS(fixture)							\
	FIXTURE_VARIANT(fixture) { struct kind kind; };					\
	RS_KINDS(RS_VARIANT, fixture)

/* Gives a fixture the variants of both tables. */
#define RS_VARIANTS(fixture)								\
	RS_VARIANTS_OF_KINDS(fixture);							\
	RS_FALLBACKS(RS_VARIANT, fixture)

#endif
