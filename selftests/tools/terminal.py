#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""terminal.py KEYS COMMAND...

Runs a command on a terminal of 40 lines and 200 columns. Types the keys when something with the word
READY (a variable) was printed. Prints the output; the status is that of the command.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

# Seconds after which the command is given up.
BOUND = 60


def main(keys, *command):
    """Runs the command."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    ready = os.environ.get("READY", "").encode()
    output, typed = b"", not keys
    while select.select([master], [], [], BOUND)[0]:
        try:
            data = os.read(master, 1 << 16)
        except OSError:
            data = b""
        if not data:
            break
        output += data
        if not typed and ready in output:
            os.write(master, keys.encode())
            typed = True
    else:
        os.kill(pid, 9)
    sys.stdout.buffer.write(output)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


sys.exit(main(*sys.argv[1:]))
