"""Run the long steps of a build: report progress, shorten failures to a line, leave no processes behind."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

from tools.linux import code_within, end_with_parent
from tools.localcluster.progress import Progress, Report

_ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
_LOOK_SECONDS = 0.5
_TELLING = re.compile(r"(?i)\b(error|fatal|failed|cannot|unable|denied)\b|^E:")
_FULL = "No space left on device"


class ImageError(RuntimeError):
    """A build cannot continue; the message says in one line what is missing or broken, and what to do."""


class LackingError(ImageError):
    """This machine lacks what a build needs; the message says what, and how to get it. No build has begun."""


class Steps:
    """Runs commands one after another, with one log for all of them."""

    def __init__(self, log: Path, report: Report) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        self._log, self._report = log, report

    def run(self, step: str, command: list[str]) -> None:
        """Run a command, and report now and then how long it has taken. Raises ImageError if it fails."""
        began, start = time.monotonic(), self._log.stat().st_size
        self._report(Progress(step, 0, None))
        with self._log.open("a") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=end_with_parent
            )
        try:
            while (code := code_within(process, _LOOK_SECONDS)) is None:
                self._report(Progress(step, time.monotonic() - began, None))
        except BaseException:
            process.kill()
            process.wait()
            raise
        if code:
            with self._log.open(errors="replace") as log:
                log.seek(start)
                raise ImageError(f"{step} failed: {reason_in(log.read(), code)} (all of it: {self._log})")
        self._report(Progress(step, time.monotonic() - began, None, finished=True))

    def succeeds(self, command: list[str]) -> bool:
        """Run a short command, and report whether it succeeds."""
        with self._log.open("a") as output:
            done = subprocess.run(command, stdout=output, stderr=output)
        return not done.returncode


def reason_in(output: str, code: int) -> str:
    """Return the line of the output that says why a command has failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(_FULL in line for line in lines):
        return "no space left on device: free some"
    telling = [line for line in lines if _TELLING.search(line)]
    # Builders end with "exit status 1". The line with the actual failure comes before.
    telling = [line for line in telling if "exit status" not in line] or telling
    return telling[-1] if telling else lines[-1] if lines else f"exit code {code}"


def alone(command: list[str], root: Path | None = None) -> list[str]:
    """Return the command with which root runs `command` so that neither mounts nor processes outlive it.

    root: the directory that the command sees as its root directory.
    """
    return [*_ALONE, *([f"--root={root}"] if root else []), "--mount-proc=/proc", *command]


def require_space(directory: Path, needed: int) -> None:
    """Raise LackingError if less than `needed` bytes are free."""
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise LackingError(
            f"{directory} has {free / 1e9:.1f} GB free, and the build needs {needed / 1e9:.1f} GB: free some"
        )
