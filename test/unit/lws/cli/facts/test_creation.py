"""lws.cli.facts.creation: what a manifest would create, told without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.facts.creation import as_stored, creation, update_from_rest
from lws.cli.refusal import Refusal
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget
from test.unit.builders import NOW, make_pod_template
from test.unit.stories.letters import letters_of


def manifest(**spec: Any) -> dict[str, Any]:
    template = {"workerTemplate": make_pod_template(), "size": 3}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "demo"},
        "spec": {"leaderWorkerTemplate": template, **spec},
    }


def test_defaults_are_filled_in() -> None:
    lws = as_stored(manifest())
    assert (lws["spec"]["replicas"], lws["metadata"]["namespace"]) == (1, "default")
    assert lws["spec"]["networkConfig"] == {"subdomainPolicy": "Shared"}


def test_what_comes_of_it() -> None:
    lws = as_stored(manifest(replicas=2))
    assert [line.text for line in creation(lws)] == [
        f"new: 2 groups of 3 pods, 6 in all, under key {record(lws).key}"
    ]


def test_an_update_from_rest() -> None:
    rolling = {"rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1, "partition": 1}}
    state = update_from_rest(as_stored(manifest(replicas=3, rolloutStrategy=rolling)), NOW)
    assert letters_of(state.groups, 3) == "rrr"
    assert state.statefulset == LeaderStatefulSet(replicas=3, partition=1, last_replicas=3, is_current=False)
    assert (state.floor, state.budget) == (1, Budget(1, 1))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"replicas": -1}, "must be equal or greater than 0"),
        ({"leaderWorkerTemplate": {"size": 2}}, "workerTemplate: Field required"),
        ({"leaderWorkerTemplate": None}, "it would be refused: "),
        ({"startupPolicy": "Never"}, "it would be refused: spec.startupPolicy"),
    ],
)
def test_what_would_be_refused(change: dict[str, Any], refusal: str) -> None:
    with pytest.raises(Refusal, match=refusal):
        as_stored(manifest(**change))


def test_a_bad_name() -> None:
    with pytest.raises(Refusal, match=r"it would be refused: metadata\.name"):
        as_stored({**manifest(), "metadata": {"name": "1Bad"}})
