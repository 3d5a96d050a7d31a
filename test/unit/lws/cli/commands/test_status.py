"""lws.cli.commands.status: one set or all sets, in each requested format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click
import pytest

from lws import timing
from lws.cli import states
from lws.cli.commands import status as module
from lws.cli.commands.status import Duration
from lws.cli.histories import SetObjects
from lws.cli.main import main
from lws.cli.session import Refusal
from lws.cli.sets import NamedSet
from lws.runtime.actions import Object
from lws.runtime.errors import Forbidden, Throttled, Unreachable
from test.unit.builders import make_set
from test.unit.fake_api import answer_json, failure, plain, reset
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.histories import revision_of, set_objects, snapshot_of

DEMO = make_set(namespace="team")
BROKEN = make_set(namespace="team", name="broken")
NONE = answer_json({"items": [], "metadata": {}})
NO_SUCH_KIND = plain(404, "404 page not found")
NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets: one that is not settled, and one that cannot be read."""

    async def all_of(session: Any, lws: Object) -> SetObjects:
        if lws["metadata"]["name"] == "broken":
            raise Refusal("set broken cannot be read: spec.replicas is 'two'")
        history = [revision_of(DEMO, 1)]
        return replace(set_objects(snapshot_of(DEMO, history), history), lws=DEMO)

    monkeypatch.setitem(states._STATES, "LeaderWorkerSet", (all_of, states.report_on))


async def listed(talk: Talk, output: str | None, everywhere: bool = False) -> int:
    namespaced = replace(talk.session, namespace="") if everywhere else talk.session
    return await module._list(namespaced, output)


async def test_a_line_for_each_set(talk: Talk, sets: None, capsys: pytest.CaptureFixture[str]) -> None:
    talk.api.will(answer_json({"items": [BROKEN, DEMO], "metadata": {}}), NO_SUCH_KIND)
    assert await listed(talk, None) == 1
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "demo"]
    assert err == "Warning: set broken cannot be read: spec.replicas is 'two'\n"
    assert talk.api.requests[0].path.endswith("/namespaces/team/leaderworkersets")


async def test_an_unreadable_set_does_not_hide_others(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def all_of(session: Any, lws: Object) -> SetObjects:
        if lws["metadata"]["name"] == "broken":
            raise Forbidden(403, "Forbidden", "not you")
        history = [revision_of(DEMO, 1)]
        return replace(set_objects(snapshot_of(DEMO, history), history), lws=DEMO)

    monkeypatch.setitem(states._STATES, "LeaderWorkerSet", (all_of, states.report_on))
    talk.api.will(answer_json({"items": [BROKEN, DEMO], "metadata": {}}), NO_SUCH_KIND)
    assert await listed(talk, None) == 1
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "demo"]
    assert err == "Warning: set broken cannot be shown: not you\n"


async def test_all_namespaces(talk: Talk, sets: None, capsys: pytest.CaptureFixture[str]) -> None:
    talk.api.will(answer_json({"items": [DEMO], "metadata": {}}), NONE)
    assert await listed(talk, "wide", everywhere=True) == 1
    heading, line = capsys.readouterr().out.splitlines()
    assert (heading.split()[:2], line.split()[:2]) == (["NAMESPACE", "NAME"], ["team", "demo"])
    assert talk.api.requests[0].path == "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"


async def test_output_formats(talk: Talk, sets: None, capsys: pytest.CaptureFixture[str]) -> None:
    response = answer_json({"items": [DEMO], "metadata": {}})
    talk.api.will(response, NONE, response, NONE)
    await listed(talk, "name")
    assert capsys.readouterr().out == f"{NAME}\n"
    await listed(talk, "json")
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["name"], item["namespace"], item["settled"]) == ("demo", "team", False)


@pytest.mark.parametrize(
    ("everywhere", "output", "expected"),
    [
        (False, None, ("", "No resources found in team namespace.\n")),
        (True, None, ("", "No resources found.\n")),
        (False, "name", ("", "")),
        (False, "yaml", ("items: []\n", "")),
    ],
)
async def test_no_sets(
    everywhere: bool,
    output: str | None,
    expected: tuple[str, str],
    talk: Talk,
    capsys: pytest.CaptureFixture[str],
) -> None:
    talk.api.will(NONE, NO_SUCH_KIND)
    assert await listed(talk, output, everywhere) == 0
    assert capsys.readouterr() == expected


async def test_a_cluster_without_the_kind(talk: Talk) -> None:
    talk.api.will(NO_SUCH_KIND)
    with pytest.raises(Refusal, match="doesn't have a resource type"):
        await listed(talk, None)


async def test_a_single_set(
    talk: Talk, sets: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def find(session: Any, name: NamedSet) -> Object:
        assert name == "demo"
        return DEMO

    monkeypatch.setattr(module, "find", find)
    for output, start in {"name": f"{NAME}\n", "yaml": "name: demo\n", "wide": "LeaderWorkerSet "}.items():
        assert await module._show(talk.session, NamedSet("demo"), output) == 1
        out = capsys.readouterr().out
        assert out.startswith(start)
        assert ("NODE" in out) == (output == "wide")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["demo", "-A"], "a resource cannot be retrieved by name across all namespaces"),
        (["--watch"], "--watch requires NAME"),
        (["demo", "--watch", "-o", "name"], "--watch and -o name cannot be used together"),
    ],
)
def test_conflicting_options(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["status", *arguments])
    assert (end.value.code, capsys.readouterr().err) == (2, f"error: {problem} (see lws status --help)\n")


async def test_a_kind_that_may_not_be_listed_does_not_hide_others(
    talk: Talk, sets: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether all sets are settled is unknown then."""
    message = 'disaggregatedsets is forbidden: User "jane" cannot list resource "disaggregatedsets"'
    talk.api.will(answer_json({"items": [DEMO], "metadata": {}}), failure(403, "Forbidden", message))
    assert await listed(talk, "name") == 1
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"Warning: {message}")) == (f"{NAME}\n", True)
    talk.api.will(NONE, failure(403, "Forbidden", message))
    assert await listed(talk, "name") == 1
    talk.api.will(failure(403, "Forbidden", message))
    with pytest.raises(Forbidden):
        await listed(talk, "name")


async def test_following_continues_after_temporary_errors(
    talk: Talk, sets: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "SCREEN_SECONDS", 0.001)
    response = answer_json(DEMO)
    later, busy = failure(503, "ServiceUnavailable", "not now"), failure(429, "TooManyRequests", "too much")
    not_found = failure(404, "NotFound", "not found")
    talk.api.will(
        later, response, later, busy, reset(), reset(), plain(502, "bad gateway"), response, not_found, NONE
    )
    with pytest.raises(Refusal, match="there is none"):
        await module._follow(talk.session, NamedSet("demo"), 60, False)
    assert talk.api.answers == []
    assert "not now; retrying" in capsys.readouterr().out


async def test_following_ends_if_the_server_was_never_reached(talk: Talk) -> None:
    # aiohttp retries a GET once after a reset.
    talk.api.will(reset(), reset())
    with pytest.raises(Unreachable):
        await module._follow(talk.session, NamedSet("demo"), 60, False)


async def test_following_ends_at_its_timeout(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(session: Any, name: NamedSet) -> Any:
        raise Throttled(503, "ServiceUnavailable", "not now")

    monkeypatch.setattr(module, "_read", refused)
    with pytest.raises(Refusal, match=r"set demo is not settled after 0\.2 s: not now"):
        await module._follow(talk.session, NamedSet("demo"), 0.2, False)


@pytest.mark.parametrize(
    ("word", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("0.5s", 0.5), ("30", 30), ("0.5", 0.5)]
)
def test_durations(word: str, seconds: float) -> None:
    assert Duration().convert(word, None, None) == seconds


@pytest.mark.parametrize("word", ["", "0", "0s", "-5", "-5s", "soon", "nan", "5 s", "1d"])
def test_invalid_durations_are_rejected(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration above zero such as 30s"):
        Duration().convert(word, None, None)
