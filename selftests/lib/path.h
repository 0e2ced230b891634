/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine and the byte counts of connections, from the module's files in /proc/net/rdma_sock.
 */

#ifndef RS_PATH_H
#define RS_PATH_H

#include "kind.h"

/* Opens a file of the module as a side sees it; NULL if there is none. */
static inline FILE *open_proc(enum side side, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/thread-self/net/rdma_sock/%s", name);
	enter(side);
	return fopen(path, "r");
}

/* A counter in the file `stat` of a side; -1 if there is none. */
static inline long long counter(enum side side, const char *name)
{
	char found[64];
	long long value, result = -1;
	FILE *f;

	f = open_proc(side, "stat");
	if (!f)
		return -1;
	while (fscanf(f, "%63s %lld", found, &value) == 2) {
		if (!strcmp(found, name))
			result = value;
	}
	fclose(f);
	return result;
}

/* Prints why connections of both sides went on by TCP or ended, with the counts. */
static inline void print_reasons(void)
{
	char line[128];
	FILE *f;

	for (enum side side = CLIENT; side <= SERVER; side++) {
		f = open_proc(side, "stat");
		if (!f)
			continue;
		while (fgets(line, sizeof(line), f)) {
			if (strstr(line, "_reason_"))
				printf("# side %d: %s", side, line);
		}
		fclose(f);
	}
	fflush(stdout);
}

/* The line of the connection that mode_of() read last, for messages. */
static char conn_line[512];

/* Does the word of a line that starts with `key` end with a port? */
static inline bool has_port(const char *line, const char *key, int port)
{
	const char *word = strstr(line, key), *end;
	char wanted[16];
	int size = snprintf(wanted, sizeof(wanted), ":%d", port);

	if (!word)
		return false;
	word += strlen(key);
	end = word + strcspn(word, "\n ");
	return end - word >= size && !strncmp(end - size, wanted, size);
}

/* The mode in a line of the file `conns`, or "none". Valid until the next call. */
static inline const char *mode_of_line(const char *line)
{
	static char mode[16];
	const char *found = strstr(line, " mode=");

	if (!found || sscanf(found, " mode=%15s", mode) != 1)
		return "none";
	return mode;
}

/*
 * The mode of the connection between two ports, as in the file `conns` of a side: "smc", "tcp",
 * "pending" and the like; "none" if the file does not list the connection.
 */
static inline const char *mode_of(enum side side, int local, int peer)
{
	const char *mode = "none";
	char line[sizeof(conn_line)];
	FILE *f;

	snprintf(conn_line, sizeof(conn_line), "no such connection\n");
	f = open_proc(side, "conns");
	if (!f)
		return mode;
	while (fgets(line, sizeof(line), f)) {
		if (!has_port(line, " local=", local) || !has_port(line, " peer=", peer))
			continue;
		mode = mode_of_line(line);
		memcpy(conn_line, line, sizeof(line));
	}
	fclose(f);
	return mode;
}

/* The number of connections of a side that go by RDMA, as in the file `conns`. */
static inline int carried_connections(enum side side)
{
	char line[sizeof(conn_line)];
	int count = 0;
	FILE *f;

	f = open_proc(side, "conns");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (engine_of_mode(mode_of_line(line)) == TCP)
			continue;
		memcpy(conn_line, line, sizeof(line));
		count++;
	}
	fclose(f);
	return count;
}

/* The mode of a connected socket of a side. */
static inline const char *mode_of_fd(enum side side, int fd)
{
	return mode_of(side, local_port(fd), peer_port(fd));
}

/* A counter of a side; 0 if there is none. */
static inline long long counted(enum side side, const char *name)
{
	long long value = counter(side, name);

	return value < 0 ? 0 : value;
}

/* The sum of a counter of both sides; 0 without the module. */
static inline long long both_sides(const char *name)
{
	return counted(CLIENT, name) + counted(SERVER, name);
}

/* The bytes sent by RDMA so far, with any engine. */
static inline long long rdma_bytes(void)
{
	return both_sides("tx_bytes") + both_sides("sdp_tx_bytes");
}

/*
 * Waits until closed sockets of an earlier test have sent their last bytes; the bytes sent by RDMA
 * so far, or -1 if they do not end. The file `conns` is the only sign that a closed socket is done.
 */
static inline long long rdma_bytes_at_rest(void)
{
	for (int tries = 0; tries < 10000; tries++) {
		if (!carried_connections(CLIENT) && !carried_connections(SERVER))
			return rdma_bytes();
		usleep(1000);
	}
	fprintf(stderr, "# connections of another test do not end: %s", conn_line);
	return -1;
}

#endif
