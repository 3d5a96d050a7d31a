"""Run one test with many seeds, and say which seed it failed with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Test = Callable[..., None]


def for_each_seed(count: int) -> Callable[[Test], Test]:
    """The seeds from 0; a test of its own for each would take longer to set up than to play."""

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def played(**fixtures: Any) -> None:
            for seed in range(count):
                try:
                    test(seed=seed, **fixtures)
                except BaseException as error:
                    error.add_note(f"seed {seed}")
                    raise

        known = inspect.signature(test)
        others = [each for name, each in known.parameters.items() if name != "seed"]
        played.__signature__ = known.replace(parameters=others)  # type: ignore[attr-defined]
        return played

    return decorate
