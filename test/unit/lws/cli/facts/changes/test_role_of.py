"""lws.cli.facts.changes.role_of: a LeaderWorkerSet that is a role of a DisaggregatedSet."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.arguments.set_name import NamedSet
from lws.cli.commands.pause import check
from lws.cli.commands.restart import _restart
from lws.cli.commands.undo import UndoOptions, _undo
from lws.cli.facts.changes.role_of import caution
from lws.cli.kinds.registry import KINDS
from lws.cli.refusal import Refusal
from lws.disaggregatedset.names import Identity
from test.unit.builders import make_set
from test.unit.disaggregated import make_child, make_disaggregated
from test.unit.fake_api import answer_json
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.facts.test_lookup import world
from test.unit.lws.cli.histories import revision_of

ROLE: Any = make_child(make_disaggregated(), Identity(0, "0" * 8, "prefill"))
SAID = (
    "demo-0-00000000-prefill is a role of DisaggregatedSet demo: only this role is rolled, not in step with "
    "the others, and no revision of demo records it, so its next one comes without. `lws restart "
    "disaggregatedset/demo` takes all roles along"
)


def test_it_is_told_from_a_set_of_its_own() -> None:
    assert caution(ROLE, "restart") == SAID
    assert caution(make_set(), "restart") == ""


async def test_a_restart_of_one_role_says_what_comes_of_it(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    talk.api.will(answer_json(ROLE), answer_json(ROLE))
    assert await _restart(talk.session, NamedSet(ROLE["metadata"]["name"]), None) == 0
    assert capsys.readouterr().err == f"Warning: {SAID}\n"
    assert talk.api.requests[-1].method == "PATCH"


async def test_so_does_the_way_back_of_one_role(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    owners = ROLE["metadata"]["ownerReferences"]
    there = make_set(namespace="team", image="app:2")
    there["metadata"]["ownerReferences"] = owners
    former = revision_of(make_set(namespace="team"), 1)
    talk.api.will(*[world(there, former, revision_of(there, 2))] * 20)
    assert await _undo(talk.session, NamedSet("demo"), UndoOptions(1, dry_run=True, output="name")) == 0
    assert "`lws undo disaggregatedset/demo` takes all roles along" in capsys.readouterr().err


def test_a_pause_of_one_role_would_stop_nothing() -> None:
    with pytest.raises(Refusal, match="Use `lws pause disaggregatedset/demo`"):
        check(KINDS[0], ROLE, paused=True)
    # One that somebody else has paused can be resumed.
    paused = {**ROLE, "spec": {**ROLE["spec"], "rolloutStrategy": {"paused": True}}}
    check(KINDS[0], paused, paused=False)
