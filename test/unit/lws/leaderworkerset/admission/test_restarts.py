"""Tests of lws.leaderworkerset.admission.validation: warnings about the groups that an update restarts."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from test.unit.builders import make_set

Object = dict[str, Any]

ONE, FREE = "by a rollout, one at a time", "unless they have this template already"
KEEP = "revision until the partition is lowered"
IMAGE = "worker template container main image: app:1 → app:2"


def stored(updated: int = 4, rolling: bool = False, replicas: int = 4, **spec: Any) -> Object:
    """Return a running set of four groups."""
    condition = {"type": "UpdateInProgress", "status": str(rolling)}
    status = {"replicas": replicas, "updatedReplicas": updated, "conditions": [condition]}
    return make_set(replicas=4, status=status, **{"image": "app:1", **spec})


def wanted(image: str = "app:2", **spec: Any) -> Object:
    return make_set(image=image, **{"replicas": 4, **spec})


def paused() -> Object:
    return {"rolloutStrategy": {"type": "RollingUpdate", "paused": True}}


LEFT_ALONE = {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "UnsupportedField"}]}


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        pytest.param(stored(), wanted(), f"groups 0 to 3 restart, {ONE}: {IMAGE}", id="image"),
        pytest.param(
            stored(),
            wanted(max_unavailable=2, max_surge=1),
            f"groups 0 to 3 restart, by a rollout, up to 3 at a time: {IMAGE}",
            id="new budget",
        ),
        pytest.param(
            stored(),
            wanted(max_unavailable=9),
            f"groups 0 to 3 restart, by a rollout, up to 4 at a time: {IMAGE}",
            id="all at a time",
        ),
        pytest.param(
            stored(),
            wanted(replicas=1),
            f"group 0 restarts, by a rollout: {IMAGE}",
            id="image and scaled down",
        ),
        pytest.param(
            stored(), wanted(replicas=9), f"groups 0 to 3 restart, {ONE}: {IMAGE}", id="image and scaled up"
        ),
        pytest.param(
            stored(),
            wanted(partition=3),
            f"group 3 restarts, by a rollout; groups 0 to 2 keep their {KEEP}: {IMAGE}",
            id="a canary",
        ),
        pytest.param(
            stored(),
            wanted(partition=7),
            f"groups 0 to 3 keep their {KEEP}: {IMAGE}",
            id="no groups yet",
        ),
        pytest.param(
            stored(),
            wanted(**paused()),
            f"groups 0 to 3 restart once the rollout is resumed: {IMAGE}",
            id="paused",
        ),
        pytest.param(
            stored(updated=1, rolling=True),
            wanted(),
            f"groups 0 to 3 restart, {ONE}, {FREE}: {IMAGE}",
            id="in a rollout",
        ),
        pytest.param(
            stored(updated=1, partition=3),
            wanted("app:1", partition=1),
            f"groups 1 to 2 restart, {ONE}, {FREE}; "
            f"group 0 keeps its {KEEP}: the partition is lowered from 3 to 1",
            id="the partition is lowered",
        ),
        pytest.param(
            stored(updated=1, **paused()),
            wanted("app:1"),
            f"groups 0 to 3 restart, {ONE}, {FREE}: the rollout is resumed",
            id="resumed",
        ),
    ],
)
def test_rolling_changes_cause_a_warning(old: Object, new: Object, warning: str) -> None:
    assert warnings_in(new, old) == [warning]
    assert errors_in(new, old) == []


def respelled() -> Object:
    new = wanted("app:1")
    container = new["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
    container |= {"resources": {}, "env": [], "imagePullPolicy": "IfNotPresent"}
    return new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(stored(), respelled(), id="equal in another spelling"),
        pytest.param(stored(), wanted("app:1", replicas=9), id="scaled"),
        pytest.param(stored(), wanted("app:1", startupPolicy="LeaderReady"), id="field of new groups only"),
        pytest.param(stored(replicas=0), wanted(), id="no groups exist"),
        pytest.param(stored(), wanted(replicas=0), id="scaled to zero"),
        pytest.param({**stored(), "status": "garbage"}, wanted(), id="empty status"),
        pytest.param(stored(partition=3), wanted("app:1"), id="partition without effect"),
        pytest.param(
            stored(updated=1, partition=3),
            wanted("app:1", partition=1, **paused()),
            id="partition lowered while paused",
        ),
        pytest.param(stored(**paused()), wanted("app:1"), id="resumed without changes"),
        pytest.param(
            stored(), {**wanted(scheduling={}), "status": LEFT_ALONE}, id="set of another controller"
        ),
        pytest.param(stored(spread="zones"), wanted(spread="zones"), id="a field of a later release"),
    ],
)
def test_other_changes_cause_no_warning(old: Object, new: Object) -> None:
    assert not any("restart" in warning or "keep" in warning for warning in warnings_in(new, old))


def test_no_warning_on_creation() -> None:
    assert warnings_in(wanted()) == []


def test_placement_annotations_cause_a_warning() -> None:
    new = wanted("app:1")
    new["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    (warning,) = warnings_in(new, stored())
    assert warning.startswith("groups 0 to 3 restart, by a rollout, one at a time: ")
    assert "exclusive-topology" in warning


def test_long_lists_of_changes_are_shortened() -> None:
    new = wanted()
    pod = new["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    pod |= {f"{name}": "x" for name in ("nodeName", "hostname", "schedulerName", "priorityClassName")}
    (warning,) = warnings_in(new, stored())
    assert warning.endswith("; and 2 more")
    assert len(json.dumps(warning)) < 400


def test_templates_too_large_to_compare_cause_a_warning() -> None:
    old = stored()
    old["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["a"] * 30_000
    assert warnings_in({**old, "spec": {**old["spec"], "startupPolicy": "LeaderReady"}}, old) == []
    new = copy.deepcopy(old)
    new["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "app:2"
    (warning,) = warnings_in(new, old)
    assert warning.startswith("spec.leaderWorkerTemplate: too large to report here which groups")
