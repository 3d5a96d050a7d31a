"""Answers: what does the tour tell its audience?

In: steps, deeds, checks, pictures. Out: a display; there is one for terminals and one for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tools.demo.check import Check
from tools.demo.picture import Picture
from tools.localcluster import Progress


class Show(Protocol):
    """A display. `changed` may be called from any thread, all else from the main one."""

    def build(self, progress: Progress) -> None:
        """How far something is that may take minutes."""

    def begin(self, title: str) -> None:
        """The next step begins."""

    def say(self, text: str) -> None:
        """What was done just now, such as the command that a user would type."""

    def wait_for(self, text: str) -> None:
        """What is being waited for from now on; empty for nothing."""

    def verified(self, checks: Sequence[Check]) -> None:
        """What was verified at the end of a step."""

    def watch(self, source: Callable[[], Picture]) -> None:
        """From now on there is something to see."""

    def changed(self) -> None:
        """What there is to see has changed."""

    def tell(self, lines: Sequence[str]) -> None:
        """Something to read and copy, as it is."""

    def fail(self, text: str) -> None:
        """Something went wrong."""

    def close(self) -> None:
        """Nothing more is shown."""
