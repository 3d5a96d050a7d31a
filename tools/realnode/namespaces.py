"""Run a command in such a way that nothing of it is left behind.

The kernel removes its network, mount and process namespaces with the last process, the guard the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tools.linux import end_with_parent
from tools.realnode import guard
from tools.realnode.kit import VARIABLE, Kit, NodeError
from tools.realnode.preparation import NAMESPACES

PID_FILE = "unshare.pid"
"""A file in a node's folder: the ID of the process whose only child is the first process inside."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def own_state() -> Iterator[Path]:
    """Create a folder for the files of a node, and first remove what killed nodes have left.

    Another process removes the folder and the cgroups of the same name once this one has ended.
    """
    for name in guard.remains():
        guard.remove(name)
    name = guard.node_name(os.getpid())
    script = str(Path(guard.__file__))
    keeper = subprocess.Popen(
        [sys.executable, "-I", script], stdin=subprocess.PIPE, text=True, start_new_session=True
    )
    assert keeper.stdin
    try:
        keeper.stdin.write(f"{name}\n")
        keeper.stdin.flush()
        state = guard.state_of(name)
        state.mkdir(mode=0o711)
        yield state
    finally:
        keeper.stdin.close()
        if keeper.wait():
            raise NodeError(f"something of the node is left, see above: files or cgroups named {name}")


def run_inside(command: Sequence[str], kit: Kit, environment: Mapping[str, str] = os.environ) -> int:
    """Run `command` inside the namespaces, and return its exit code; 128 + N if signal N ended it."""
    entry = [sys.executable, "-m", "tools.realnode.inside", *command]
    temporary = kit.folder / "tmp"
    temporary.mkdir(mode=0o1777)
    path = os.pathsep.join(filter(None, [str(_REPOSITORY), environment.get("PYTHONPATH", "")]))
    # Temporary files are removed with the node.
    handed = {**environment, VARIABLE: str(kit.write()), "TMPDIR": str(temporary), "PYTHONPATH": path}
    process = subprocess.Popen(
        [*NAMESPACES, "--propagation", "private", *entry],
        env=handed,
        # Ctrl-C must reach only this process, which passes it on once.
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    (kit.folder / PID_FILE).write_text(str(process.pid))
    with _handed_on_to(process.pid):
        code = process.wait()
    return code if code >= 0 else 128 - code


def first_process(unshare: int) -> int:
    """Return the ID, outside of the namespaces, of the first process inside; 0 if it has ended."""
    try:
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


@contextmanager
def _handed_on_to(unshare: int) -> Iterator[None]:
    """Pass signals on to the first process inside during the block, because `unshare` itself does not."""

    def hand_on(number: int, _: FrameType | None) -> None:
        if pid := first_process(unshare):
            os.kill(pid, number)

    former = {number: signal.signal(number, hand_on) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
