/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of SMC-R, with the names and fields of those of net/smc: scripts for these read ours. What
 * is a struct smc_sock there is the sock of the connection here.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM smc

#if !defined(RDMA_SOCK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RDMA_SOCK_TRACE_H

#include <linux/tracepoint.h>

/* A connection is one of TCP. */
TRACE_EVENT(smc_switch_to_fallback,
	    TP_PROTO(const void *sk, u64 net, int reason),
	    TP_ARGS(sk, net, reason),
	    TP_STRUCT__entry(__field(const void *, sk)
			     __field(const void *, clcsk)
			     __field(u64, net_cookie)
			     __field(int, fallback_rsn)),
	    TP_fast_assign(__entry->sk = sk;
			   __entry->clcsk = sk;
			   __entry->net_cookie = net;
			   __entry->fallback_rsn = reason;),
	    TP_printk("sk=%p clcsk=%p net=%llu fallback_rsn=%d",
		      __entry->sk, __entry->clcsk, __entry->net_cookie,
		      __entry->fallback_rsn)
);

/* A call has moved octets between a program and a buffer. */
DECLARE_EVENT_CLASS(smc_msg_event,
		    TP_PROTO(const void *sk, u64 net, size_t octets, const char *device),
		    TP_ARGS(sk, net, octets, device),
		    TP_STRUCT__entry(__field(const void *, smc)
				     __field(u64, net_cookie)
				     __field(size_t, len)
				     __string(name, device)),
		    TP_fast_assign(__entry->smc = sk;
				   __entry->net_cookie = net;
				   __entry->len = octets;
				   __assign_str(name);),
		    TP_printk("smc=%p net=%llu len=%zu dev=%s",
			      __entry->smc, __entry->net_cookie, __entry->len,
			      __get_str(name))
);

DEFINE_EVENT(smc_msg_event, smc_tx_sendmsg,
	     TP_PROTO(const void *sk, u64 net, size_t octets, const char *device),
	     TP_ARGS(sk, net, octets, device)
);

DEFINE_EVENT(smc_msg_event, smc_rx_recvmsg,
	     TP_PROTO(const void *sk, u64 net, size_t octets, const char *device),
	     TP_ARGS(sk, net, octets, device)
);

/* A link of a group goes down. */
TRACE_EVENT(smcr_link_down,
	    TP_PROTO(const void *link, const void *group, u64 net, int condition,
		     const char *device, void *where),
	    TP_ARGS(link, group, net, condition, device, where),
	    TP_STRUCT__entry(__field(const void *, lnk)
			     __field(const void *, lgr)
			     __field(u64, net_cookie)
			     __field(int, state)
			     __string(name, device)
			     __field(void *, location)),
	    TP_fast_assign(__entry->lnk = link;
			   __entry->lgr = group;
			   __entry->net_cookie = net;
			   __entry->state = condition;
			   __assign_str(name);
			   __entry->location = where;),
	    TP_printk("lnk=%p lgr=%p net=%llu state=%d dev=%s location=%pS",
		      __entry->lnk, __entry->lgr, __entry->net_cookie,
		      __entry->state, __get_str(name), __entry->location)
);

#endif /* RDMA_SOCK_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rdma_sock_trace
#include <trace/define_trace.h>
