"""lws.cli.facts.changes.retry: a write that conflicts with those of the status, or of somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws.cli.facts.changes.retry import write_unless_changed
from lws.cli.refusal import Refusal
from lws.runtime.actions import Reference
from lws.runtime.errors import Invalid
from test.unit.builders import make_set
from test.unit.fake_api import answer_json, failure
from test.unit.lws.cli.conftest import Talk

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
async def test_the_status_was_written_meanwhile(talk: Talk, answer: Any) -> None:
    talk.api.will(answer, answer_json(as_of("2")), answer, answer_json(as_of("3")), answer_json(as_of("4")))
    stored = await attempt(talk)
    assert stored["metadata"]["resourceVersion"] == "4"
    patches = [each.body[0]["value"] for each in talk.api.requests if each.method == "PATCH"]
    assert patches == ["1", "2", "3"]


@pytest.mark.parametrize(
    "fresh",
    [{"generation": 2}, {"uid": "another"}, {"annotations": {"a": "b"}}],
    ids=["its spec", "it is another one", "its annotations"],
)
async def test_somebody_changed_the_set(talk: Talk, fresh: dict[str, Any]) -> None:
    talk.api.will(CONFLICT, answer_json(as_of("2", **fresh)))
    with pytest.raises(Refusal, match="set demo was changed by somebody else just now"):
        await attempt(talk)
    assert [each.method for each in talk.api.requests] == ["PATCH", "GET"]


async def test_a_status_that_never_rests(talk: Talk) -> None:
    for version in range(2, 12):
        talk.api.will(CONFLICT, answer_json(as_of(str(version))))
    with pytest.raises(Refusal, match="was changed by somebody else"):
        await attempt(talk)


async def test_a_refusal_stays_a_refusal(talk: Talk) -> None:
    talk.api.will(failure(422, "Invalid", "spec.replicas: wrong"), answer_json(as_of("1")))
    with pytest.raises(Invalid, match=r"spec\.replicas: wrong"):
        await attempt(talk)
