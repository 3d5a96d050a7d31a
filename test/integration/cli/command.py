"""Call `lws` in this process, with a given kubeconfig and namespace."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from lws.cli import main


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def data(self) -> Any:
        """Return the output of `-o json`."""
        return json.loads(self.out)


class _Program(click.Command):
    """The entry point in the form that click's test runner calls."""

    def __init__(self) -> None:
        super().__init__("lws")

    def main(self, args: Any = None, prog_name: Any = None, **extra: Any) -> Any:  # type: ignore[override]
        main(args)


@dataclass(frozen=True)
class Caller:
    """A user at a terminal. namespace: passed with -n, unless None."""

    kubeconfig: Path
    namespace: str | None

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command to its end."""
        options = [] if self.namespace is None else ["-n", self.namespace]
        variables = {"KUBECONFIG": str(self.kubeconfig)}
        result = CliRunner(env=variables).invoke(_Program(), [*arguments, *options], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Result(result.exit_code, result.stdout, result.stderr)

    def succeed(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command that must succeed."""
        result = self(*arguments, stdin=stdin)
        assert result.code == 0, result
        return result
