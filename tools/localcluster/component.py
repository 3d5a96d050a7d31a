"""Start, stop, kill and restart one component of the control plane, and revive it if it ends by itself."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster.api import ask

_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LOG_LINES = 15
_REVIVE_SECONDS = 0.5


class ComponentError(RuntimeError):
    """A component has died or does not become healthy; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Blueprint:
    """How to run a component. `health`: an address that answers with status 200; "" if running is enough."""

    name: str
    command: Sequence[str]
    log: Path
    health: str = ""
    directory: Path | None = None


class Guard:
    """A child process that outlives this one, to end the components and remove the state directory."""

    def __init__(self, state: Path) -> None:
        self.state = state
        script = Path(__file__).with_name("guard.py")
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(script)], stdin=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self._tell(str(state))

    def watch(self, pid: int) -> None:
        self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        self._tell(f"-{pid}")

    def close(self) -> None:
        """Let the guard remove the state directory and end."""
        assert self._child.stdin
        self._child.stdin.close()
        self._child.wait()

    def _tell(self, line: str) -> None:
        assert self._child.stdin
        # The guard may have been killed. Stopping then continues without it.
        with suppress(BrokenPipeError):
            self._child.stdin.write(f"{line}\n".encode())


class Component:
    """One program of the cluster, which may be started several times with the same command line."""

    def __init__(self, blueprint: Blueprint, guard: Guard) -> None:
        self.blueprint = blueprint
        self._guard = guard
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._keep_alive = False

    @property
    def name(self) -> str:
        return self.blueprint.name

    @property
    def pid(self) -> int | None:
        """The process ID while the program runs."""
        return self._child.pid if self._child and self._child.poll() is None else None

    def start(self) -> None:
        """Start the program and append to its log; raises ComponentError if it already runs."""
        with self._lock:
            if self.pid is not None:
                raise ComponentError(f"{self.name} is already running (pid {self.pid})")
            self._spawn()

    def revive(self) -> None:
        """Start the program again if it was healthy and has ended without being stopped or killed by us."""
        with self._lock:
            if self._keep_alive and self._child is not None and self._child.poll() is not None:
                self._guard.forget(self._child.pid)
                self._spawn()

    def wait_healthy(self, timeout: float) -> None:
        """Wait until the program is healthy; raises ComponentError if it dies or `timeout` seconds pass."""
        deadline = time.monotonic() + timeout
        while not self._is_healthy():
            if self._child is None or self._child.poll() is not None:
                raise ComponentError(f"{self.name} ended while starting{self.last_words()}")
            if time.monotonic() > deadline:
                raise ComponentError(f"{self.name} is not healthy after {timeout:g} s{self.last_words()}")
            time.sleep(_POLL_SECONDS)
        self._keep_alive = True

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after a while. Return when the program has ended."""
        self._end(signal.SIGTERM, _STOP_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL. Return when the program has ended."""
        self._end(signal.SIGKILL, _STOP_SECONDS)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, to the program; raises ComponentError if it does not run."""
        if self._child is None or self.pid is None:
            raise ComponentError(f"{self.name} is not running{self.last_words()}")
        self._child.send_signal(number)

    def last_words(self) -> str:
        """Return the end of the program's log, for messages."""
        try:
            lines = self.blueprint.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            lines = []
        return "; its log ends with:\n" + "\n".join(lines) if lines else ""

    def _spawn(self) -> None:
        with self.blueprint.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.blueprint.command,
                cwd=self.blueprint.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal must reach only this process, which stops components in order and not
                # all at once.
                start_new_session=True,
            )
        self._guard.watch(self._child.pid)

    def _is_healthy(self) -> bool:
        if not self.blueprint.health:
            return self.pid is not None
        return ask(self.blueprint.health)[0] == http.client.OK

    def _end(self, number: signal.Signals, grace: float) -> None:
        with self._lock:
            self._keep_alive = False
            if self._child is None:
                return
            self._child.send_signal(number)
            # A process that was stopped by SIGSTOP sees no other signal before it continues.
            self._child.send_signal(signal.SIGCONT)
            try:
                self._child.wait(grace)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._guard.forget(self._child.pid)
            self._child = None


def wait_until(is_true: Callable[[], bool], complaint: str, seconds: float) -> None:
    """Wait until the condition is true; raises ComponentError with the complaint if that takes too long."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise ComponentError(f"{complaint} within {seconds:g} s")
        time.sleep(_POLL_SECONDS)


class Supervisor:
    """Revives components that end by themselves, in a thread of its own from `start` to `stop`."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._components = tuple(components)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="localcluster-supervisor", daemon=True)

    def start(self) -> None:
        """Begin to revive components."""
        self._thread.start()

    def stop(self) -> None:
        """Return once no component will be started any more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_REVIVE_SECONDS):
            for component in self._components:
                component.revive()
