"""lws.kube.statefulsets: facts read from a StatefulSet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lws.kube.statefulsets import (
    desired_replicas,
    has_seen_template,
    is_observed,
    is_settled,
    is_short,
    last_applied,
    max_unavailable_of,
    observed_generation_of,
    partition_of,
    update_revision_of,
)


def statefulset(status: dict[str, Any] | None = None, generation: int = 2, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"generation": generation}, "spec": spec, "status": status}


SETTLED = {"observedGeneration": 2, "availableReplicas": 3, "currentRevision": "a", "updateRevision": "a"}


@pytest.mark.parametrize(
    ("changed", "settled"),
    [
        pytest.param({}, True, id="settled"),
        pytest.param({"observedGeneration": 3}, True, id="seen even later"),
        pytest.param({"observedGeneration": 1}, False, id="spec not seen yet"),
        pytest.param({"observedGeneration": None}, False, id="never seen"),
        pytest.param({"availableReplicas": 2}, False, id="one missing"),
        pytest.param({"availableReplicas": 4}, False, id="one too many"),
        pytest.param({"availableReplicas": None}, False, id="none"),
        pytest.param({"updateRevision": "b"}, False, id="between revisions"),
    ],
)
def test_is_settled(changed: dict[str, Any], settled: bool) -> None:
    assert is_settled(statefulset({**SETTLED, **changed}, replicas=3)) is settled


def test_no_replicas_are_settled_once_seen() -> None:
    assert is_settled(statefulset({"observedGeneration": 2}, replicas=0))
    assert not is_settled(statefulset({}, replicas=0))
    assert not is_settled(statefulset(None, replicas=0))


@pytest.mark.parametrize(
    ("status", "is_as_wanted", "is_all_there", "is_lacking"),
    [
        pytest.param({"replicas": 3, "availableReplicas": 3}, True, True, False, id="all replicas"),
        pytest.param({**SETTLED, "replicas": 3}, True, True, False, id="with revisions"),
        pytest.param({"replicas": 3, "availableReplicas": 2}, True, False, False, id="one not available"),
        pytest.param({"replicas": 2, "availableReplicas": 2}, False, False, True, id="one missing"),
        pytest.param({"replicas": 4, "availableReplicas": 4}, False, False, False, id="one too many"),
        pytest.param({**SETTLED, "replicas": 3, "updateRevision": "b"}, True, False, False, id="rolling"),
        pytest.param({"replicas": 0, "availableReplicas": 0}, False, False, False, id="nothing reported yet"),
        pytest.param(None, False, False, False, id="no status"),
    ],
)
def test_a_status_without_observed_generation_is_judged_by_its_counters(
    status: dict[str, Any] | None, is_as_wanted: bool, is_all_there: bool, is_lacking: bool
) -> None:
    """observedGeneration is optional in the API."""
    counters = {field: value for field, value in (status or {}).items() if field != "observedGeneration"}
    stored = statefulset(counters, replicas=3)
    assert (is_observed(stored), is_settled(stored), is_short(stored)) == (
        is_as_wanted,
        is_all_there,
        is_lacking,
    )
    assert not has_seen_template(stored), "counters do not reveal the observed template"


def test_reports() -> None:
    seen = statefulset({"observedGeneration": 1, "updateRevision": "demo-1"})
    assert (observed_generation_of(seen), update_revision_of(seen), is_observed(seen)) == (1, "demo-1", False)
    unseen = statefulset()
    assert (observed_generation_of(unseen), update_revision_of(unseen), is_observed(unseen)) == (0, "", False)


@pytest.mark.parametrize(("spec", "count"), [({"replicas": 3}, 3), ({"replicas": 0}, 0), ({}, 1)])
def test_wanted_replicas(spec: dict[str, Any], count: int) -> None:
    assert desired_replicas(statefulset(**spec)) == count


@pytest.mark.parametrize(
    ("strategy", "partition", "max_unavailable"),
    [
        pytest.param({"rollingUpdate": {"partition": 3, "maxUnavailable": 2}}, 3, 2, id="feature on"),
        pytest.param({"rollingUpdate": {"partition": 3}}, 3, None, id="feature off"),
        pytest.param({"rollingUpdate": {"maxUnavailable": "50%"}}, 0, 1, id="written by another client"),
        pytest.param({"type": "OnDelete"}, 0, None, id="another strategy"),
        pytest.param(None, 0, None, id="no strategy"),
    ],
)
def test_rolling_update(strategy: Any, partition: int, max_unavailable: int | None) -> None:
    stored = statefulset(updateStrategy=strategy)
    assert (partition_of(stored), max_unavailable_of(stored)) == (partition, max_unavailable)


def test_last_applied() -> None:
    def entry(time: str | None, manager: str = "lws", operation: str = "Apply") -> dict[str, Any]:
        return {"manager": manager, "operation": operation, "time": time}

    managed = [
        entry("2026-03-01T12:00:05Z"),
        entry("2026-03-01T12:00:01Z"),
        entry("2026-03-01T12:00:09Z", manager="kubectl"),
        entry("2026-03-01T12:00:09Z", operation="Update"),
        entry(None),
        entry("0000-01-01T00:00:00Z"),
        entry("9999-12-31T23:59:59Z"),
    ]
    stored = {"metadata": {"managedFields": managed}}
    assert last_applied(stored, "lws") == datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    assert last_applied({"metadata": {"managedFields": managed[2:]}}, "lws") is None
    assert last_applied({"metadata": {}}, "lws") is None
