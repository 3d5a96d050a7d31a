"""An event loop whose clock moves only while nothing else is left to do: an hour passes in a millisecond.

Sockets on loopback work: time stands still while something can be read or written.
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

# Real seconds: what loopback gets to deliver before the clock moves on, and when we call it a hang.
_DELIVERY, _HANG = 0.001, 30.0


class _Probe:
    """Loopback delivers in order: when a byte that is sent now has arrived, so has what was sent before.

    A millisecond is enough as long as a machine is not busy; then it delivers whenever it gets to that.
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
    """Advances `now` instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._probe: _Probe | None = None

    def select(self, timeout: float | None = None) -> Any:
        # The loop always registers its own wake-up pipe.
        has_sockets = len(self.get_map()) > 1
        if timeout is None:
            found = super().select(_HANG if has_sockets else 0)
            if not found:
                raise RuntimeError("everything waits and nothing is scheduled: this would hang for ever")
            return found
        if timeout <= 0 and not has_sockets:
            # Something is ready to run; what wakes the loop up has put it there itself.
            return []
        found = super().select(_DELIVERY if has_sockets and timeout > 0 else 0)
        if not found and has_sockets and timeout > 0:
            self._probe = self._probe or _Probe()
            self._probe.wait()
            found = super().select(0)
        if not found:
            self.now += max(timeout, 0.0)
        return found

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        super().close()


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """`time()` is fake; everything else is asyncio's."""

    def __init__(self) -> None:
        self._fake_selector = _Selector()
        super().__init__(self._fake_selector)

    def time(self) -> float:
        """Fake seconds since some moment."""
        return self._fake_selector.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in fake time."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(main)


def in_fake_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test function that is run in fake time."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return wrapper


def now() -> float:
    """The fake time."""
    return asyncio.get_running_loop().time()
