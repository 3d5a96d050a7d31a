"""Passes over DisaggregatedSets with random stored status, annotations, labels and revisions.

No pass raises, and no pass deletes a group of the target revision.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from lws.disaggregatedset.children.scalers import build_scaler
from lws.disaggregatedset.children.services import build_service
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.tables import TABLES
from lws.leaderworkerset.tables import TABLES as SET_TABLES
from lws.runtime.actions import Delete, Merge, Plan
from lws.runtime.errors import NotFound
from lws.runtime.store import Store
from test.unit import api_server
from test.unit.builders import NOW
from test.unit.disaggregated import build_revision, make_child, make_disaggregated, make_role

RUNS = 1000
OLD, NEW = "1" * 8, "2" * 8
TIME = "2026-03-01T12:00:00Z"
STATUS = {
    "conditions": [
        {"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}
        for kind in ("Available", "Progressing", "ReplicaFailure", "Stalled")
    ],
    "roleStatuses": [{"name": "prefill", "replicas": 1, "readyReplicas": 1}],
    "sliceStatuses": [
        {"index": 0, "revisions": [{"revision": OLD, "roles": [{"name": "prefill", "replicas": 1}]}]}
    ],
    "rollouts": {
        "0": {
            "revision": NEW,
            "initialReplicas": {f"demo-0-{OLD}-prefill": 2, f"demo-0-{OLD}-decode": 1},
            "targets": {"prefill": 2},
        }
    },
    "currentRevision": f"demo-{OLD}-1",
    "updateRevision": f"demo-{NEW}-2",
    "collisionCount": 1,
    "lastProgressTime": TIME,
    "observedGeneration": 1,
    "pending": ["spec.placementPolicy"],
    "slices": 1,
    "selector": "a=b",
}
CHILD_STATUS = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "restarts": {"0": "1.1.1.a"}}
CHILD_STATUS |= {"conditions": STATUS["conditions"]}
ODD: tuple[Any, ...] = (
    *(None, "", "x", "7", -1, 0, 3, 10**12, 1.5, True, False, [], {}, [None], [7], ["x"], [{}], [[]]),
    *({"type": "Available"}, {"0": 7}, {"0": None}, {"": ""}, [{"type": 7, "status": []}], {"name": 7}),
    *([{"name": "prefill", "replicas": "x"}], [{"index": "0", "revisions": 7}], "2026-99-99T00:00:00Z"),
)


def objects() -> list[dict[str, Any]]:
    """Return a set in a rollout with all its objects; one old child is lost."""
    roles = [make_role("prefill", None), make_role("decode", 1)]
    obj = make_disaggregated(roles=roles, status=copy.deepcopy(STATUS), slices=2, progressDeadlineSeconds=60)
    old = copy.deepcopy(obj)
    old["spec"]["roles"][1] = make_role("decode", 1, "app:0")
    result = [obj, build_scaler(obj, "prefill", 2), build_service(obj, Identity(0, OLD, "decode"))]
    result += [
        build_revision(source, record(source), key, n)
        for n, (source, key) in enumerate(((old, OLD), (obj, NEW)))
    ]
    for key, role in ((OLD, "decode"), (NEW, "prefill"), (NEW, "decode")):
        result.append(make_child(obj, Identity(0, key, role), 1, status=copy.deepcopy(CHILD_STATUS)))
    return [api_server.stored(item) if item["kind"] == "ControllerRevision" else item for item in result]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every position in a document as a container and a key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from places(inner)


def misremember(obj: dict[str, Any], dice: random.Random) -> None:
    """Change one recorded number of the current rollout."""
    numbers = obj["status"]["rollouts"]["0"][dice.choice(("initialReplicas", "targets"))]
    numbers[dice.choice(list(numbers))] = dice.choice((*(0, 0, 1, 3, 10**6), *ODD))


def garble(obj: dict[str, Any], dice: random.Random) -> None:
    """Replace a random value with one that this project never writes.

    Fields whose types every API server checks stay as they are.
    """
    parts = {name: obj[name] for name in ("status", "data", "revision") if name in obj}
    metadata = {name: obj["metadata"].get(name, {}) for name in ("labels", "annotations")}
    if obj["kind"] in ("LeaderWorkerSet", "DisaggregatedSetRoleScaler") and dice.random() < 0.5:
        parts["spec"] = obj["spec"]
    if parts and dice.random() < 0.8:
        holder, key = dice.choice(list(places(parts)))
        if holder is parts:
            obj[key] = copy.deepcopy(dice.choice(ODD))
        else:
            holder[key] = copy.deepcopy(dice.choice(ODD))
        return
    kind = dice.choice(list(metadata))
    entries = dict(metadata[kind] or {})
    entries[dice.choice([*entries, "disaggregatedset.x-k8s.io/initial-replicas", "x"])] = dice.choice(
        ("", "x", "-1", "99999999999", "1.5", "é")
    )
    obj["metadata"][kind] = entries


class NoCluster:
    """A cluster for reads that bypass the store."""

    def __init__(self, stored: list[dict[str, Any]]) -> None:
        self._stored = {(obj["kind"], obj["metadata"]["name"]): obj for obj in stored}

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        if (kind, name) not in self._stored:
            raise NotFound(404, "NotFound", name)
        return self._stored[kind, name]


async def plan_with(stored: list[dict[str, Any]]) -> Plan:
    store = Store(lambda before, after: None, [*SET_TABLES, *TABLES])
    for number, obj in enumerate(stored):
        obj["metadata"].setdefault("resourceVersion", str(number + 1))
        obj["metadata"].setdefault("uid", f"uid-{number}")
        obj["metadata"].setdefault("creationTimestamp", TIME)
        store.put(obj)
    cluster: Any = NoCluster(stored)
    observer = DisaggregatedObserver(cluster, store, DisaggregatedMemory(store))
    snapshot = await observer.observe("default", "demo", NOW)
    assert snapshot is not None
    return plan(snapshot)


def running() -> dict[str, dict[str, Any]]:
    """Return the unedited specs of the target revision's children, and of the scaler of one of them."""
    names = {f"demo-0-{NEW}-prefill", f"demo-0-{NEW}-decode", "demo-prefill"}
    return {obj["metadata"]["name"]: obj["spec"] for obj in objects() if obj["metadata"]["name"] in names}


def check_no_running_group_is_deleted(stored: list[dict[str, Any]], planned: Plan) -> None:
    """Check that the plan removes no group of the target revision.

    Children and roles whose number of groups was edited are skipped.
    """
    specs = {obj["metadata"]["name"]: obj.get("spec") for obj in stored}
    edited = {name for name, spec in RUNNING.items() if specs[name] != spec}
    for action in chain(*planned.sequences):
        if not isinstance(action, Merge | Delete) or action.target.name not in RUNNING:
            continue
        _, _, role = action.target.name.rpartition("-")
        if action.target.name in edited or f"demo-{role}" in edited:
            continue
        assert isinstance(action, Merge), f"{action.why}: {action.target}"
        assert action.patch.get("spec", {}).get("replicas", 1) >= 1, f"{action.why}: {action}"


RUNNING = running()


@pytest.mark.parametrize("part", range(10))
async def test_no_pass_raises_with_random_records(part: int) -> None:
    for seed in range(part * RUNS // 10, (part + 1) * RUNS // 10):
        dice = random.Random(seed)
        stored = objects()
        if dice.random() < 0.2:
            misremember(stored[0], dice)
        for _ in range(dice.choice((1, 1, 2, 4))):
            garble(dice.choice([stored[0], dice.choice(stored)]), dice)
        before = copy.deepcopy(stored)
        try:
            check_no_running_group_is_deleted(stored, await plan_with(stored))
        except Exception as error:
            error.add_note(f"seed {seed}: {before}")
            raise
