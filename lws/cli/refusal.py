"""How a command says that it will not or cannot: one sentence on stderr and an exit code.

In: a sentence that says what, where, and what to do. Out: an exception that the entry point shows.
"""

from __future__ import annotations

from typing import IO, Any

import click


class Refusal(click.ClickException):
    """The command changed nothing; exit code 1. opening: who refuses, in the words of kubectl."""

    def __init__(self, message: str, opening: str = "error") -> None:
        super().__init__(message)
        self.opening = opening

    def show(self, file: IO[Any] | None = None) -> None:
        """In the form of kubectl."""
        click.echo(f"{self.opening}: {self.message}", file=file, err=file is None)


class Unreadable(Refusal):
    """A stored set that no release of the controller could act on. fault: what of its spec, in words."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"set {name} cannot be read: {fault}; correct its spec")
        self.fault = fault
