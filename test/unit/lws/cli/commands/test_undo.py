"""lws.cli.commands.undo: `--dry-run` as kubectl takes it."""

from __future__ import annotations

import click
import pytest

from lws.cli.arguments.set_name import NamedSet
from lws.cli.commands.undo import UndoOptions, _undo, undo
from lws.cli.refusal import Refusal
from test.unit.builders import make_set
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.facts.test_lookup import world
from test.unit.lws.cli.histories import revision_of


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


async def test_to_where_the_set_is_already(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    """As `kubectl rollout undo`; a copy with the same content leads nowhere either."""
    there = make_set(namespace="team")
    revisions = [revision_of(there, number) for number in (1, 2)]
    for number in (1, 2):
        talk.api.will(*[world(there, *revisions)] * 20)
        assert (
            await _undo(talk.session, NamedSet("demo"), UndoOptions(number, dry_run=False, output=None)) == 0
        )
        name = "leaderworkerset.leaderworkerset.x-k8s.io/demo"
        said = f"{name} skipped rollback (current template already matches revision {number})\n"
        assert capsys.readouterr().out == said
        assert all(each.method == "GET" for each in talk.api.requests)
        talk.api.answers.clear()


async def test_a_paused_set_is_refused_all_the_same(talk: Talk) -> None:
    paused = make_set(namespace="team", rolloutStrategy={"paused": True})
    talk.api.will(*[world(paused, revision_of(paused, 1))] * 20)
    with pytest.raises(Refusal, match="set demo is paused"):
        await _undo(talk.session, NamedSet("demo"), UndoOptions(1, dry_run=False, output=None))
