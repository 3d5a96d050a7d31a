"""test.harness.disaggregated.promises: every violated guarantee of a DisaggregatedSet rollout is found.

A scenario is a text with one line for each change that the API server would report.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import (
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCALER_KIND,
    SLICE_LABEL,
)
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_LABEL
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role
from test.harness.disaggregated.promises import violations
from test.harness.disaggregated.scenes import Seen, steps_of
from test.harness.world import SET

# Longer than a manager may take to see changes of other clients.
_APART_SECONDS = 10.0


def changes(story: str) -> list[Seen]:
    """Parse a scenario with one change per line.

    Lines are `set x=2 y=1`, `done x=2 y=1`, `scaler x=3`, `revision a=1`, `a/x 2` (a child), `a/x gone`, `a/x
    ready 2` (its pods), `a/x pod 0 gone`, `a/x pod 0 gone admin` (and who deleted it), `a/x pod 0 restarted`.
    A leading "~" means: at the same time as the previous line.
    """
    observed: list[Seen] = []
    at = 0.0
    for line in filter(None, map(str.strip, story.splitlines())):
        at += 0.0 if line.startswith("~") else _APART_SECONDS
        observed += _change(at, line.removeprefix("~").split())
    return observed


def _change(at: float, words: list[str]) -> list[Seen]:
    match words:
        case ["set" | "done" as what, *roles]:
            return [Seen(at, KIND, {"pd": _set(dict(pair.split("=") for pair in roles), what == "done")})]
        case ["scaler", pair]:
            role, count = pair.split("=")
            spec = {"metadata": {"labels": {NAME_LABEL: "pd"}}, "spec": {"replicas": int(count)}}
            return [Seen(at, SCALER_KIND, {f"pd-{role}": spec})]
        case ["revision", pair]:
            key, number = pair.split("=")
            labels = {NAME_LABEL: "pd", REVISION_LABEL: key}
            revision = {"metadata": {"labels": labels}, "revision": int(number)}
            return [Seen(at, "ControllerRevision", {f"pd-{key}": revision})]
        case [child, "gone"]:
            return [Seen(at, SET, {child: None})]
        case [child, "ready", count]:
            return [Seen(at, "Pod", {f"{child}-{i}": _pod(child, i)}) for i in range(int(count))]
        case [child, "pod", index, "gone", *who]:
            return [Seen(at, "Pod", {f"{child}-{index}": None}, *who)]
        case [child, "pod", index, "restarted"]:
            pod = _pod(child, int(index))
            pod["status"]["containerStatuses"] = [{"restartCount": 1}]
            return [Seen(at, "Pod", {f"{child}-{index}": pod})]
        case [child, count]:
            return [Seen(at, SET, {child: _child(child, int(count))})]
    raise ValueError(words)


def _set(counts: dict[str, str], is_done: bool) -> dict[str, Any]:
    roles = [a_role(name, None if n == "?" else int(n)) for name, n in counts.items()]
    obj = a_disaggregated_set("pd", roles)
    obj["metadata"]["generation"] = 1
    status = {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}
    return {**obj, "status": status} if is_done else obj


def _child(name: str, replicas: int) -> dict[str, Any]:
    key, role = name.split("/")
    labels = {NAME_LABEL: "pd", REVISION_LABEL: key, ROLE_LABEL: role, SLICE_LABEL: "0"}
    template = {"workerTemplate": {"spec": {"containers": [{"image": f"server:{key}"}]}}}
    metadata = {"name": name, "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": replicas, "leaderWorkerTemplate": template}}


def _pod(child: str, group: int) -> dict[str, Any]:
    labels = {NAME_LABEL: "pd", CHILD_LABEL: child, GROUP_INDEX_LABEL: str(group), WORKER_INDEX_LABEL: "0"}
    metadata = {"name": f"{child}-{group}", "uid": f"{child}-{group}", "labels": labels}
    metadata["annotations"] = {SIZE_ANNOTATION: "1"}
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


REST = """
    set x=2 y=2
    revision a=1
    a/x 2
    a/y 2
    a/x ready 2
    a/y ready 2
    done x=2 y=2
"""
BEGUN = f"""{REST}
    set x=2 y=2
    revision b=2
    b/x 0
    b/y 0
    b/x 1
    b/y 1
    b/x ready 1
    b/y ready 1
"""
WHOLE = f"""{BEGUN}
    a/x 1
    a/x pod 1 gone
    a/y 1
    a/y pod 1 gone
    b/x 2
    b/y 2
    b/x ready 2
    b/y ready 2
    a/x 0
    a/y 0
    a/x pod 0 gone
    a/y pod 0 gone
    a/x gone
    a/y gone
    done x=2 y=2
"""


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(WHOLE, id="a rollout"),
        pytest.param(f"{BEGUN}\n set x=3 y=2\n b/x 2", id="a higher target, a higher ceiling"),
        pytest.param(f"{BEGUN}\n set x=1 y=1\n a/x 0\n a/y 0", id="an incomplete revision is completed"),
        pytest.param(f"{REST}\n set x=1 y=2\n a/x 1\n a/x pod 1 gone", id="a lower target"),
        pytest.param("set x=? y=1\n revision a=1\n scaler x=4\n a/x 4\n a/y 1", id="a scaler"),
        pytest.param(f"{REST}\n revision b=2\n revision a=3", id="a rollback"),
        pytest.param(f"{REST}\n a/x pod 0 gone admin", id="a pod is deleted by another client"),
        pytest.param(f"{REST}\n a/x pod 0 restarted\n a/x pod 0 gone", id="a group is recreated"),
        pytest.param(
            f"{BEGUN}\n a/x 1\n a/x pod 1 gone\n a/x ready 2\n ~b/x 2",
            id="raised when a StatefulSet that was not lowered yet creates a pod",
        ),
    ],
)
def test_correct_rollouts_pass(story: str) -> None:
    assert violations(steps_of("pd", changes(story))) == []


@pytest.mark.parametrize(
    ("story", "promise"),
    [
        pytest.param(f"{BEGUN}\n b/x 2", "surge", id="raised without room"),
        pytest.param(f"{BEGUN}\n a/x 1\n b/x 2", "surge", id="raised while a group terminates"),
        pytest.param(
            f"{BEGUN}\n a/x 1\n a/x pod 1 gone\n a/x ready 2\n b/x 2",
            "surge",
            id="raised long after a StatefulSet created a pod",
        ),
        pytest.param(f"{BEGUN}\n a/x 0", "floor", id="two groups at once"),
        pytest.param(f"{REST}\n revision b=2\n b/x 0\n a/x 1", "floor", id="no new group is ready"),
        pytest.param(f"{BEGUN}\n a/x 1\n a/x pod 1 gone\n a/x 2", "direction", id="an old child grows"),
        pytest.param(f"{BEGUN}\n b/x 0", "direction", id="the new child shrinks"),
        pytest.param(f"{REST}\n c/x 0", "record", id="not recorded"),
        pytest.param(f"{BEGUN}\n a/x gone", "reason", id="deleted with its groups"),
        pytest.param(f"{BEGUN}\n a/x pod 0 gone", "reason", id="a pod is deleted"),
        pytest.param(
            f"{REST}\n a/x pod 1 restarted\n a/x pod 0 gone", "reason", id="another group is recreated"
        ),
        pytest.param(
            f"{REST}\n revision b=2\n b/x 0\n b/y 0\n b/x 1\n a/y 1",
            "pairs",
            id="an incomplete revision remains",
        ),
        pytest.param(f"{BEGUN}\n done x=2 y=2", "end", id="available too early"),
    ],
)
def test_violations_are_found(story: str, promise: str) -> None:
    actual = violations(steps_of("pd", changes(story)))
    assert promise in {violation.what.partition(":")[0] for violation in actual}


def test_deletions_by_other_clients_are_no_violation() -> None:
    """A deletion counts from the moment when a manager may have seen it."""
    story = f"{BEGUN}\n b/x gone\n ~a/y 1\n b/x 0\n b/x 1"
    assert violations(steps_of("pd", changes(story)), lost={"b/x"}) == []
