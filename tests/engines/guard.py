"""Becomes another program that ends when the process that started it ends.

    python guard.py PARENT USER COMMAND ...

PARENT is the process that starts it, USER a user to run as, or empty. Linux kills the program when
the thread that started it is gone, so that thread must be one that lasts.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: str, user: str, *command: str) -> None:
    """Replaces this process by the command."""
    if user:
        found = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(found.pw_gid)
        os.setuid(found.pw_uid)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent):  # or it ended before this was asked for
        os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
