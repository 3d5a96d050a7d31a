"""The program `kubectl_complete-lws`: how kubectl completes `kubectl lws`, in every shell that it supports.

In: the words after `kubectl lws`, the one to complete last. Out: a candidate per line with a tab before its
description, then a directive for the shell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

from lws.cli.main import PLUGIN, commands

# https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective
_COMPLETE_FILES, _NO_FILES, _COMPLETE_FOLDERS = 0, 4, 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the candidates."""
    *words, incomplete = (sys.argv[1:] if arguments is None else arguments) or [""]
    items = ShellComplete(commands, {}, PLUGIN, "").get_completions(list(words), incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(_line(item))
    click.echo(f":{_directive(items)}")


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)


def _directive(items: Sequence[CompletionItem]) -> int:
    kinds = {item.type for item in items}
    if "file" in kinds:
        return _COMPLETE_FILES
    return _COMPLETE_FOLDERS if "dir" in kinds else _NO_FILES
