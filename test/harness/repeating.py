"""Repeat work in the background while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeated(work: Callable[[], object], pause: float = 0.0, clients: int = 1) -> Iterator[None]:
    """Repeat `work` in `clients` threads until the block ends.

    Each thread pauses for `pause` seconds before each call. An error ends its thread and is raised at the end
    of the block.
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
