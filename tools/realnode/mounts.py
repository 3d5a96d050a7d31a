"""Answers: what of the machine's files does a node see otherwise, so that it changes none of them?

Runs in a mount namespace of its own, with which every mount goes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.realnode.errors import NodeError

# The kubelet wants these and would set them for the whole machine. What it reads here, it leaves alone.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
# Where parts of a node write, whatever they are told.
_WRITTEN = (Path("/var/lib"), Path("/var/log"))
_RUN = Path("/run")


def set_up(state: Path, overlay: bool) -> None:
    """Hide what would be written to. `overlay`: what is there is seen still. Raises NodeError."""
    for place in _WRITTEN:
        upper, work = (state / "written" / kind / place.name for kind in ("upper", "work"))
        for folder in (upper, work):
            folder.mkdir(parents=True)
        if overlay:
            options = f"lowerdir={place},upperdir={upper},workdir={work}"
            _mount("-t", "overlay", "-o", options, "overlay", str(place))
        else:
            _mount("--bind", str(upper), str(place))
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(_RUN))
    settings = state / "kernel"
    settings.mkdir()
    for name, value in KERNEL_SETTINGS.items():
        shown = settings / name.replace("/", ".")
        shown.write_text(f"{value}\n")
        _mount("--bind", str(shown), f"/proc/sys/{name}")


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise NodeError(f"mount {' '.join(arguments)} failed: {done.stderr.strip()}")
