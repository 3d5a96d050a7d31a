"""Answers: what does the first process in the namespaces do? `python -m tools.realnode.inside COMMAND`

In: a command. Out: mounts, addresses and cgroups are there before it starts; signals reach it; processes that
nobody waits for are taken away; its exit code is ours, and everything else is killed by the kernel then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from tools.realnode import cgroups, mounts, network
from tools.realnode.errors import NodeError
from tools.realnode.kit import read_kit
from tools.realnode.namespaces import FORWARDED


def main(command: Sequence[str]) -> int:
    """Prepare, run, and return the exit code of the command."""
    early: list[int] = []
    for number in FORWARDED:
        signal.signal(number, lambda received, _: early.append(received))
    try:
        kit = read_kit()
        mounts.set_up(kit.folder, kit.overlay)
        network.set_up()
        cgroups.set_up(kit.name)
    except (NodeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    child = subprocess.Popen(command)

    def hand_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, hand_on)
    for received in early:
        child.send_signal(received)
    return _reap_until_end_of(child.pid)


def _reap_until_end_of(wanted: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == wanted:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
