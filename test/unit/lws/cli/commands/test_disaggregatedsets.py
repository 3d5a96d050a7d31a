"""Commands of `lws` on DisaggregatedSets: what they show and what they change."""

from __future__ import annotations

import copy

import pytest

from lws.cli.commands.diff import _diff as compare
from lws.cli.commands.history import _history as show_history
from lws.cli.commands.undo import _undo as undo
from lws.cli.sets import KINDS, NamedSet
from test.unit.fake_api import answer_json
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.test_lookup import world
from test.unit.lws.cli.test_roles_history import A, B
from test.unit.lws.disaggregatedset.revisions.histories import key_by_hash, revision_of

IMAGE = "worker template container main image: a → b"


LLM = NamedSet("llm", KINDS[1])


async def test_the_table(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    revisions = [revision_of(state, number) for number, state in enumerate((A, B), 1)]
    talk.api.will(*[world(B, *revisions)] * 3)
    assert await show_history(talk.session, LLM, None, "wide") == 0
    out = capsys.readouterr().out
    assert "DisaggregatedSet team/llm" in out
    assert key_by_hash(A) in out
    assert f"role prefill {IMAGE}" in " ".join(out.split())


async def test_one_revision_and_names(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    answer = world(A, revision_of(A, 1))
    talk.api.will(*[answer] * 6)
    assert await show_history(talk.session, LLM, 1, None) == 0
    out = capsys.readouterr().out
    assert "Revision:     1 (what the set asks for)" in out
    assert "leaderWorkerTemplate:" in out
    assert await show_history(talk.session, LLM, None, "name") == 0
    assert capsys.readouterr().out == f"controllerrevision.apps/llm-{key_by_hash(A)}-1\n"


async def test_broken_revisions_are_reported(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {**revision_of(A, 1), "data": {"spec": {}}}
    talk.api.will(*[world(B, broken, revision_of(B, 2))] * 3)
    assert await show_history(talk.session, LLM, None, None) == 1
    assert "roles is missing" in capsys.readouterr().err


async def test_the_difference(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    answer = world(B, revision_of(A, 1), revision_of(B, 2))
    talk.api.will(*[answer] * 6)
    assert await compare(talk.session, LLM, (None, None), None) == 1
    out = capsys.readouterr().out
    assert f"revision 1 ({key_by_hash(A)}) → revision 2 ({key_by_hash(B)})" in out
    assert f"role decode {IMAGE}" in out
    assert await compare(talk.session, LLM, (1, 1), None) == 0


async def test_undo(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    answer = world(B, revision_of(A, 1), revision_of(B, 2))
    talk.api.will(*[answer] * 3, answer_json(A))
    assert await undo(talk.session, LLM, None, None) == 0
    patch = talk.api.requests[-1]
    assert (patch.method, patch.query["fieldManager"]) == ("PATCH", "lws-undo")
    assert [operation["op"] for operation in patch.body] == ["test", "replace", "replace"]
    out = capsys.readouterr().out
    assert out == "disaggregatedset.disaggregatedset.x-k8s.io/llm rolled back to revision 1\n"


async def test_undo_names_settings_of_the_revision_that_it_does_not_restore(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    """They start no rollout, so `undo` keeps them, as it keeps the scaling of roles."""
    now = copy.deepcopy(B)
    now["spec"]["roles"][0]["spec"]["networkConfig"] = {"subdomainPolicy": "UniquePerReplica"}
    talk.api.will(*[world(now, revision_of(A, 1), revision_of(B, 2))] * 3, answer_json(now))
    assert await undo(talk.session, LLM, None, None) == 0
    assert all("networkConfig" not in operation["path"] for operation in talk.api.requests[-1].body)
    kept = "spec.roles[0].spec.networkConfig differs from revision 1 and is kept"
    assert capsys.readouterr().out.splitlines()[1:] == [kept]
