from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_SIZE_ENV, NAME_LABEL
from test.unit.tools.demo.objects import CREATED, NAME, make_pod, make_set
from tools.demo.facts import Condition, owner_of, pod_of, set_of, time_of


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        pytest.param({}, "ready", id="running and ready"),
        pytest.param({"ready": False}, "not ready", id="running, not ready"),
        pytest.param({"phase": "Pending"}, "starting", id="pending on a node"),
        pytest.param({"phase": "Pending", "node": None}, "pending", id="pending without a node"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, "evicted", id="failed for a reason"),
        pytest.param({"phase": "Succeeded"}, "succeeded", id="ended without a reason"),
        pytest.param({"terminating": True}, "terminating", id="ready but terminating"),
    ],
)
def test_state_of_a_pod(changes: dict[str, Any], state: str) -> None:
    pod = pod_of(make_pod(1, 2, **changes))
    assert pod is not None
    assert pod.state == state
    assert pod.is_ready == (state == "ready")


def test_place_of_a_pod() -> None:
    pod = pod_of(make_pod(3, 2, owner="workers"))
    assert pod is not None
    assert (pod.name, pod.set_name, pod.group, pod.index, pod.size) == (f"{NAME}-3-2", NAME, 3, 2, 4)
    assert (pod.owner, pod.revision, pod.is_leader) == ("workers", "old", False)
    assert pod.environment[GROUP_SIZE_ENV] == "4"
    assert pod.created == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_pod_of_no_set_has_no_facts() -> None:
    pod = make_pod(0, 0)
    del pod["metadata"]["labels"][NAME_LABEL]
    assert pod_of(pod) is None


def test_only_controllers_are_owners() -> None:
    obj = {"metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": True}]}}
    assert owner_of(obj) == "b"
    assert owner_of({"metadata": {}}) == ""


def test_a_set_and_its_conditions_by_type() -> None:
    facts = set_of(make_set(replicas=3, size=2, readyReplicas=2, true=["Progressing"]))
    assert (facts.replicas, facts.size, facts.pods, facts.ready, facts.updated) == (3, 2, 6, 2, 3)
    assert facts.conditions[0] == Condition("Available", False, "AvailableReason")
    assert [condition.type for condition in facts.conditions] == [
        "Available",
        "Progressing",
        "UpdateInProgress",
    ]
    assert facts.holds("Progressing") and not facts.holds("Available") and not facts.holds("Unknown")


@pytest.mark.parametrize(
    ("status", "observed"),
    [
        pytest.param({"observedGeneration": 2}, True, id="current"),
        pytest.param({"observedGeneration": 1}, False, id="stale"),
        pytest.param({}, False, id="nothing observed yet"),
        pytest.param(
            {"conditions": [{"type": "Available", "status": "True", "observedGeneration": 2}]},
            True,
            id="reported only by conditions",
        ),
        pytest.param(
            {
                "conditions": [
                    {"type": "Available", "status": "True", "observedGeneration": 2},
                    {"type": "Progressing", "status": "False", "observedGeneration": 1},
                ]
            },
            False,
            id="one condition is stale",
        ),
    ],
)
def test_the_observed_generation_of_a_status(status: dict[str, Any], observed: bool) -> None:
    lws = make_set()
    lws["metadata"]["generation"] = 2
    lws["status"] = status
    assert set_of(lws).is_observed == observed


def test_times_with_and_without_fractions() -> None:
    assert time_of("2026-01-01T00:00:00.500000Z") - time_of(CREATED) == time_of(
        "2026-01-01T01:00:00.5+01:00"
    ) - time_of(CREATED)
