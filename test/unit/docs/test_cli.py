"""docs/reference/cli.md names every command with all its options, and none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from lws.cli.main import COMMANDS, commands

GUIDE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)([^|\n]*(?:\\\|[^|\n]*)*) \|", GUIDE, re.MULTILINE))
EVERYWHERE = {"--namespace", "--context", "--kubeconfig", "--help"}


def options_of(command: click.Command) -> set[str]:
    """Long names, where there is one."""
    return {
        next((name for name in option.opts if name.startswith("--")), option.opts[0])
        for option in command.params
        if isinstance(option, click.Option)
    }


def test_every_command_has_a_row() -> None:
    assert ROWS.keys() | {"resume"} == COMMANDS.keys()
    assert "`resume NAME`" in ROWS["pause"]


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"manager"}))
def test_a_row_names_all_options(name: str) -> None:
    short = {"-f": "--filename", "-o": "--output"}
    told = {short.get(each, each) for each in re.findall(r"(?<![\w-])--?[a-z][\w-]*", ROWS[name])}
    command = commands.get_command(click.Context(commands), name)
    assert command is not None and told == options_of(command) - EVERYWHERE
