/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kinds of sockets as variants of a fixture. To be included once for each fixture, after
 *
 *	#define RS_FIXTURE name
 *
 * and after RS_BOTH_SIDES_ONLY if the kinds are left out where one side is plain TCP, so that the
 * other has to fall back.
 */

#define RS_VARIANTS_OF(fixture) FIXTURE_VARIANT(fixture)
#define RS_VARIANT(fixture, name) FIXTURE_VARIANT_ADD(fixture, name)

RS_VARIANTS_OF(RS_FIXTURE) {
	struct kind kind;
};

RS_VARIANT(RS_FIXTURE, tcp) {
	.kind = { AF_INET, 0, AF_INET, { false, false } },
};

RS_VARIANT(RS_FIXTURE, inet) {
	.kind = { AF_INET, IPPROTO_SMC, AF_INET, { true, true } },
};

RS_VARIANT(RS_FIXTURE, inet6) {
	.kind = { AF_INET6, IPPROTO_SMC, AF_INET6, { true, true } },
};

RS_VARIANT(RS_FIXTURE, smc) {
	.kind = { AF_SMC, 0, AF_INET, { true, true } },
};

RS_VARIANT(RS_FIXTURE, smc6) {
	.kind = { AF_SMC, 1, AF_INET6, { true, true } },
};

#ifndef RS_BOTH_SIDES_ONLY
RS_VARIANT(RS_FIXTURE, inet_to_tcp) {
	.kind = { AF_INET, IPPROTO_SMC, AF_INET, { true, false } },
};

RS_VARIANT(RS_FIXTURE, tcp_to_inet6) {
	.kind = { AF_INET6, IPPROTO_SMC, AF_INET6, { false, true } },
};

RS_VARIANT(RS_FIXTURE, smc6_to_tcp) {
	.kind = { AF_SMC, 1, AF_INET6, { true, false } },
};

RS_VARIANT(RS_FIXTURE, tcp_to_smc) {
	.kind = { AF_SMC, 0, AF_INET, { false, true } },
};
#endif

#undef RS_BOTH_SIDES_ONLY
#undef RS_FIXTURE
#undef RS_VARIANT
#undef RS_VARIANTS_OF
