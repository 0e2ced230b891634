/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event with the payload of connections over RDMA, for rdma-sock capture. It is no event of
 * net/smc, so it is in a system of its own.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rdma_sock

#if !defined(RDMA_SOCK_CAPTURE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RDMA_SOCK_CAPTURE_H

#include <linux/tracepoint.h>

/* A call has moved these octets between a program and a buffer. */
TRACE_EVENT(rdma_sock_payload,
	    TP_PROTO(const struct rdma_sock_payload *payload),
	    TP_ARGS(payload),
	    TP_STRUCT__entry(__field(u64, net_cookie)
			     __field(u64, inode)
			     __field(u64, position)
			     __field(u16, port)
			     __field(u16, peer_port)
			     __field(u8, sent)
			     __array(u8, addr, 16)
			     __array(u8, peer, 16)
			     __dynamic_array(u8, octets, payload->len)),
	    TP_fast_assign(__entry->net_cookie = payload->net_cookie;
			   __entry->inode = payload->inode;
			   __entry->position = payload->position;
			   __entry->port = payload->port;
			   __entry->peer_port = payload->peer_port;
			   __entry->sent = payload->sent;
			   memcpy(__entry->addr, &payload->addr, 16);
			   memcpy(__entry->peer, &payload->peer, 16);
			   memcpy(__get_dynamic_array(octets), payload->octets,
				  payload->len);),
	    TP_printk("net=%llu inode=%llu sent=%u position=%llu addr=%pI6c port=%u peer=%pI6c peer_port=%u octets=%s",
		      __entry->net_cookie, __entry->inode, __entry->sent, __entry->position,
		      __entry->addr, __entry->port, __entry->peer, __entry->peer_port,
		      __print_hex_str(__get_dynamic_array(octets),
				      __get_dynamic_array_len(octets)))
);

#endif /* RDMA_SOCK_CAPTURE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rdma_sock_capture
#include <trace/define_trace.h>
