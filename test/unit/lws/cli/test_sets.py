"""lws.cli.sets: writes that conflict with a status update or with another client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from lws.cli.commands.pause import check
from lws.cli.commands.restart import _restart
from lws.cli.commands.undo import _undo
from lws.cli.session import Refusal
from lws.cli.sets import NamedSet, caution, changed, report, write_unless_changed
from lws.disaggregatedset.names import Identity
from lws.runtime.actions import Reference
from lws.runtime.errors import Invalid
from test.unit.builders import make_set
from test.unit.disaggregated import make_child, make_disaggregated
from test.unit.fake_api import answer_json, failure
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.histories import revision_of
from test.unit.lws.cli.test_lookup import world

FAILED_TEST = failure(422, "Invalid", "the server rejected our request due to an error in our request")
CONFLICT = failure(409, "Conflict", "the object has been modified")


def as_of(version: str, **metadata: Any) -> dict[str, Any]:
    lws = make_set(namespace="team")
    lws["metadata"] |= {"resourceVersion": version, **metadata}
    return lws


async def attempt(talk: Talk) -> dict[str, Any]:
    async def write(read: Mapping[str, Any]) -> dict[str, Any]:
        version = read["metadata"]["resourceVersion"]
        test = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        return await talk.session.cluster.json_patch(Reference.to(read), test, "lws-undo")

    return await write_unless_changed(talk.session, as_of("1"), write)


@pytest.mark.parametrize("answer", [FAILED_TEST, CONFLICT])
async def test_a_concurrent_status_write_is_retried(talk: Talk, answer: Any) -> None:
    talk.api.will(answer, answer_json(as_of("2")), answer, answer_json(as_of("3")), answer_json(as_of("4")))
    stored = await attempt(talk)
    assert stored["metadata"]["resourceVersion"] == "4"
    patches = [request.body[0]["value"] for request in talk.api.requests if request.method == "PATCH"]
    assert patches == ["1", "2", "3"]


@pytest.mark.parametrize(
    "fresh",
    [{"generation": 2}, {"uid": "another"}, {"annotations": {"a": "b"}}],
    ids=["changed spec", "another object", "changed annotations"],
)
async def test_a_concurrent_change_of_the_spec_is_an_error(talk: Talk, fresh: dict[str, Any]) -> None:
    talk.api.will(CONFLICT, answer_json(as_of("2", **fresh)))
    with pytest.raises(Refusal, match="set demo has changed since it was read"):
        await attempt(talk)
    assert [request.method for request in talk.api.requests] == ["PATCH", "GET"]


async def test_constant_status_writes_end_with_an_error(talk: Talk) -> None:
    for version in range(2, 12):
        talk.api.will(CONFLICT, answer_json(as_of(str(version))))
    with pytest.raises(Refusal, match="has changed since it was read"):
        await attempt(talk)


async def test_other_errors_are_not_retried(talk: Talk) -> None:
    talk.api.will(failure(422, "Invalid", "spec.replicas: wrong"), answer_json(as_of("1")))
    with pytest.raises(Invalid, match=r"spec\.replicas: wrong"):
        await attempt(talk)


NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"
LWS = make_set()
LWS["metadata"]["managedFields"] = [{"manager": "flux"}]


def printed(output: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    report(LWS, output, [changed(LWS, "paused")])
    return capsys.readouterr().out


def test_the_message_without_an_output_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(None, capsys) == f"{NAME} paused\n"
    assert changed(LWS, "paused", dry_run=True).text == f"{NAME} paused (server dry run)"


def test_the_output_format_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("name", capsys) == f"{NAME}\n"


def test_managed_fields_are_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    expected = make_set()
    assert json.loads(printed("json", capsys)) == expected
    assert yaml.safe_load(printed("yaml", capsys)) == expected


ROLE: Any = make_child(make_disaggregated(), Identity(0, "0" * 8, "prefill"))
SAID = (
    "demo-0-00000000-prefill is a role of DisaggregatedSet demo: only this role restarts, and the next "
    "rollout of demo undoes it. `lws restart disaggregatedset/demo` applies to all roles"
)


def test_only_the_set_of_a_role_causes_a_warning() -> None:
    assert caution(ROLE, "restart") == SAID
    assert caution(make_set(), "restart") == ""


async def test_a_restart_of_one_role_warns(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    talk.api.will(answer_json(ROLE), answer_json(ROLE))
    assert await _restart(talk.session, NamedSet(ROLE["metadata"]["name"]), None) == 0
    assert capsys.readouterr().err == f"Warning: {SAID}\n"
    assert talk.api.requests[-1].method == "PATCH"


async def test_an_undo_of_one_role_warns_too(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    owners = ROLE["metadata"]["ownerReferences"]
    lws = make_set(namespace="team", image="app:2")
    lws["metadata"]["ownerReferences"] = owners
    former = revision_of(make_set(namespace="team"), 1)
    talk.api.will(*[world(lws, former, revision_of(lws, 2))] * 20)
    assert await _undo(talk.session, NamedSet("demo"), 1, "name", dry_run=True) == 0
    assert "`lws undo disaggregatedset/demo` applies to all roles" in capsys.readouterr().err


def test_pausing_the_set_of_a_role_is_rejected() -> None:
    with pytest.raises(Refusal, match="Use `lws pause disaggregatedset/demo`"):
        check(ROLE, paused=True)
    # A role that another client paused can be resumed.
    paused = {**ROLE, "spec": {**ROLE["spec"], "rolloutStrategy": {"paused": True}}}
    check(paused, paused=False)
