"""Answers: how does a test have something done again and again while it does something else?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeated(work: Callable[[], object], pause: float = 0.0, clients: int = 1) -> Iterator[None]:
    """Have `work` done until the block ends, by so many threads.

    Each rests for `pause` seconds before each time. What `work` raises ends its thread, and is raised when
    the block ends.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(pause):
            work()

    with ThreadPoolExecutor(clients) as pool:
        threads = [pool.submit(repeat) for _ in range(clients)]
        try:
            yield
        finally:
            ended.set()
        for thread in threads:
            thread.result()
