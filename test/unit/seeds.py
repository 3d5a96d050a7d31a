"""Run one test with many seeds, and report the seed with which it failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Test = Callable[..., None]


def for_each_seed(count: int) -> Callable[[Test], Test]:
    """Decorate a test so that it runs with the seeds 0 to `count` - 1.

    A separate test for each seed would take longer to set up than to run.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def played(**fixtures: Any) -> None:
            for seed in range(count):
                try:
                    test(seed=seed, **fixtures)
                except BaseException as error:
                    error.add_note(f"seed {seed}")
                    raise

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name != "seed"]
        played.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return played

    return decorate
