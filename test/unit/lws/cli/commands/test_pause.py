"""lws.cli.commands.pause: the patch and the output, also if there is nothing to pause or resume."""

from __future__ import annotations

import json

import pytest

from lws.cli.commands.pause import _set_paused, check
from lws.cli.session import Refusal
from lws.cli.sets import KINDS, NamedSet
from test.unit.builders import make_set
from test.unit.disaggregated import make_disaggregated
from test.unit.fake_api import answer_json
from test.unit.lws.cli.conftest import Talk

PAUSED = make_set(rolloutStrategy={"paused": True})


def test_a_change() -> None:
    check(make_set(), paused=True)
    check(PAUSED, paused=False)


def test_no_change() -> None:
    with pytest.raises(Refusal, match="set demo is already paused"):
        check(PAUSED, paused=True)
    with pytest.raises(Refusal, match="set demo is not paused"):
        check(make_set(), paused=False)


async def test_the_resulting_set_is_printed(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = make_set(namespace="team"), make_set(namespace="team", rolloutStrategy={"paused": True})
    talk.api.will(answer_json(before), answer_json(after))
    assert await _set_paused(talk.session, NamedSet("demo"), True, "json") == 0
    assert json.loads(capsys.readouterr().out)["spec"]["rolloutStrategy"]["paused"] is True


async def test_a_disaggregated_set(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    name, before = NamedSet("demo", KINDS[1]), make_disaggregated()
    talk.api.will(answer_json(before), answer_json(make_disaggregated(rolloutStrategy={"paused": True})))
    assert await _set_paused(talk.session, name, True, None) == 0
    assert capsys.readouterr().out == "disaggregatedset.disaggregatedset.x-k8s.io/demo paused\n"
    assert talk.api.requests[-1].body == {"spec": {"rolloutStrategy": {"paused": True}}}
    talk.api.will(answer_json(before))
    with pytest.raises(Refusal, match="set demo is not paused"):
        await _set_paused(talk.session, name, None, None)
    # An older CRD drops the field.
    talk.api.will(answer_json(before), answer_json(before))
    with pytest.raises(Refusal, match=r"does not keep spec\.rolloutStrategy\.paused"):
        await _set_paused(talk.session, name, True, None)
