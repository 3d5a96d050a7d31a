"""Run `lws` in a real terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping

_LINES = 50


def in_terminal(arguments: list[str], variables: Mapping[str, str], columns: int) -> tuple[int, str]:
    """Run the command to its end; return exit code and output, escape sequences included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    plain = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    command = [sys.executable, "-m", "lws", *arguments]
    environment = {**plain, "TERM": "xterm-256color", **variables}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:
        # Linux raises this when no writer is left.
        pass
    finally:
        os.close(ours)
    return process.wait(120), output.decode().replace("\r\n", "\n")
