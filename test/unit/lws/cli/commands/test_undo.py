"""lws.cli.commands.undo: `--dry-run` as kubectl takes it."""

from __future__ import annotations

import click
import pytest

from lws.cli.commands.undo import undo


@pytest.mark.parametrize(
    ("arguments", "dry_run"),
    [
        (["demo"], "none"),
        (["demo", "--dry-run"], "server"),
        (["--dry-run", "demo"], "server"),
        (["demo", "--dry-run=server"], "server"),
        (["demo", "--dry-run=none"], "none"),
    ],
)
def test_dry_run(arguments: list[str], dry_run: str) -> None:
    params = undo.make_context("undo", arguments).params
    assert (params["name"], params["dry_run"]) == ("demo", dry_run)


def test_an_unknown_dry_run() -> None:
    with pytest.raises(click.BadParameter, match="'client' is not one of 'none', 'server'"):
        undo.make_context("undo", ["demo", "--dry-run=client"])
