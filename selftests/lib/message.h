/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One recvmsg() with room for a name and for control messages.
 */

#ifndef RS_MESSAGE_H
#define RS_MESSAGE_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* `header` points into the structure, which must not be copied. */
struct message {
	ssize_t size;		/* what recvmsg() returned */
	int error;		/* errno, 0 after success */
	struct msghdr header;
	struct iovec vec;
	char name[64];
	char control[256];
	char data[256];
};

/* Receives a message with room for `size` bytes, at most 256; the return value is its size. */
static inline ssize_t receive_message(int fd, struct message *message, size_t size, int flags)
{
	*message = (struct message){};
	message->vec = (struct iovec){ message->data, size };
	message->header = (struct msghdr){
		.msg_name = message->name,
		.msg_namelen = sizeof(message->name),
		.msg_iov = &message->vec,
		.msg_iovlen = 1,
		.msg_control = message->control,
		.msg_controllen = sizeof(message->control),
	};
	message->size = recvmsg(fd, &message->header, flags);
	message->error = message->size < 0 ? errno : 0;
	return message->size;
}

#endif
