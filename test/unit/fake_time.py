"""Run coroutines in an event loop whose clock advances only when it is idle: an hour takes a millisecond.

Sockets on loopback work: the clock stops while a socket can be read or written.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import socket
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Real seconds: the time for loopback to deliver before the clock advances, and the limit for a hang.
_DELIVERY, _HANG = 0.001, 30.0


class _Probe:
    """Wait until loopback has delivered everything that was sent before.

    Loopback delivers in order: once a byte that is sent now has arrived, so has everything before it. A
    millisecond is enough unless the machine is busy.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._sender = socket.create_connection(server.getsockname(), _HANG)
            self._receiver, _ = server.accept()
        self._sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receiver.settimeout(_HANG)

    def wait(self) -> None:
        self._sender.send(b".")
        self._receiver.recv(1)

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """A selector that advances `now` instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._probe: _Probe | None = None

    def select(self, timeout: float | None = None) -> Any:
        # The loop always registers its own self-pipe.
        has_sockets = len(self.get_map()) > 1
        if timeout is None:
            events = super().select(_HANG if has_sockets else 0)
            if not events:
                raise RuntimeError("everything waits and nothing is scheduled: this would hang for ever")
            return events
        if timeout <= 0 and not has_sockets:
            # A callback is ready to run, so there is nothing to wait for.
            return []
        events = super().select(_DELIVERY if has_sockets and timeout > 0 else 0)
        if not events and has_sockets and timeout > 0:
            self._probe = self._probe or _Probe()
            self._probe.wait()
            events = super().select(0)
        if not events:
            self.now += max(timeout, 0.0)
        return events

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        super().close()


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose `time()` is fake."""

    def __init__(self) -> None:
        self._fake_selector = _Selector()
        super().__init__(self._fake_selector)

    def time(self) -> float:
        """Return fake seconds since an arbitrary moment."""
        return self._fake_selector.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in fake time."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(main)


def in_fake_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Decorate a test so that it runs in fake time."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return wrapper


def now() -> float:
    """Return the fake time."""
    return asyncio.get_running_loop().time()
