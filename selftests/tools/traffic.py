#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""traffic.py server ADDRESS PORT [PROTOCOL] | client ADDRESS PORT PROTOCOL [SECONDS]

A server that returns what it gets, and a client that sends and receives until it is killed, with a pause
of that length between two blocks. Each prints a line when it is ready: the server when it listens, the
client after the first answer.
"""

import contextlib
import socket
import sys
import threading
import time

IPPROTO_SMC = 256
BLOCK = b"rdma-sock" * 7000


def serve(connection):
    """Returns everything that comes."""
    # A client may be killed.
    with connection, contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def server(address, protocol=IPPROTO_SMC):
    """Serves each client in a thread."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def client(address, protocol, pause):
    """Sends blocks, and compares the answers."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    connection.connect(address)
    first = True
    while True:
        connection.sendall(BLOCK)
        answer = b""
        while len(answer) < len(BLOCK):
            answer += connection.recv(len(BLOCK) - len(answer))
        if answer != BLOCK:
            sys.exit("other octets came back")
        if first:
            print("ready", flush=True)
            first = False
        time.sleep(pause)


def main(role, host, port, *protocol_and_pause):
    """Runs a side."""
    address = (host, int(port))
    if role == "server":
        server(address, *map(int, protocol_and_pause))
    protocol, *pause = protocol_and_pause
    client(address, int(protocol), float(pause[0]) if pause else 0)


main(*sys.argv[1:])
