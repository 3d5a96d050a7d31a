"""Sets in the states that upstream leaves are taken over on a real API server without a needless change.

All of them are created first, while the test holds the Lease; then the Lease is handed over once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from lws.leaderworkerset.revisions.encoding import serialised
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.audit import AuditLog, Request
from test.harness.events import events_of
from test.harness.groups import images_of, labels_of, name_of, revisions_of, settle
from test.harness.history import Frame, History, ready_groups
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from test.integration.takeover.lease import lease_held_by_upstream
from test.integration.takeover.upstream import UpstreamController
from test.unit.compat.states import State, load, names
from tools.localcluster import Api, LocalCluster

pytestmark = pytest.mark.local_only

Object = dict[str, Any]

AT_REST = [name for name in names() if name.startswith("at-rest")]
WATCHED_SECONDS = 8.0
PLAYERS = 5
NEXT_STEPS = {
    "mid-rollout-surge": [(3, 5), (2, 5)],
    "mid-rollout-last-step": [(0, 5), (0, 4)],
    "mid-rollout-recorded": [(0, 4), (4, 5)],
    "mid-rollout-lost-revision": [(3, 5), (2, 5)],
}
"""The last partition and replicas of the leader StatefulSet, and the next ones."""
OURS_TO_WRITE = {"leaderworkersets/status", "events", "leases", "controllerrevisions"}


@dataclass(frozen=True)
class Takeover:
    """One state, before and after the takeover.

    steps: partition and replicas of the leader StatefulSet in order, the first from before. frames: all pods,
    before and after each change. written: the manager's writes in its namespace.
    """

    world: World
    state: State
    history: History
    before: dict[str, Object]
    after: dict[str, Object]
    steps: list[tuple[int, int]]
    frames: list[Frame]
    written: list[Request]

    @property
    def updated(self) -> set[int]:
        """Return groups that were on the target revision from the beginning, or were created on it."""
        key = labels_of(self.before["StatefulSet web"])[REVISION_LABEL]
        pods = [obj for title, obj in self.before.items() if title.startswith("Pod ")]
        return {_index(pod) for pod in pods if labels_of(pod)[REVISION_LABEL] == key}

    def pods_of(self, indices: Iterable[int], objects: dict[str, Object]) -> dict[str, tuple[Any, ...]]:
        selected = set(indices)
        pods = {title: obj for title, obj in objects.items() if title.startswith("Pod ")}
        return {title: identity(pod) for title, pod in pods.items() if _index(pod) in selected}


def identity(obj: Object) -> tuple[Any, ...]:
    """Return what must not change in an object that is left alone."""
    restarts = [
        container["restartCount"] for container in (obj.get("status") or {}).get("containerStatuses", ())
    ]
    return obj["metadata"]["uid"], obj["metadata"].get("generation"), obj.get("spec"), restarts


@pytest.fixture(scope="module")
def takeovers(local_cluster: LocalCluster, api: Api, product: Product) -> Iterator[dict[str, Takeover]]:
    """Every state, taken over `WATCHED_SECONDS` ago."""
    audit = AuditLog(local_cluster.audit_log)
    with ExitStack() as stack, ThreadPoolExecutor(PLAYERS) as players:
        worlds = {
            name: stack.enter_context(a_namespace(local_cluster, f"t-{_dashed(name)}")) for name in names()
        }
        states = {name: load(name, world.namespace) for name, world in worlds.items()}
        with lease_held_by_upstream(api, product):
            controllers = [UpstreamController(worlds[name], states[name]) for name in names()]
            for played in [players.submit(controller.play) for controller in controllers]:
                played.result()
            for name, state in states.items():
                for index in state.unready:
                    local_cluster.pods.set_ready(worlds[name].namespace, f"web-{index}", False)
            histories = {name: History(world, "web") for name, world in worlds.items()}
            before = {name: _objects(world) for name, world in worlds.items()}
            audit.mark()
        for name, world in worlds.items():
            eventually(
                f"{name} is taken over", lambda world=world: _status(world).get("updateRevision"), seconds=60
            )
        for name in NEXT_STEPS:
            eventually(
                f"{name} makes the next step", histories[name].leader_specs, lambda specs: len(specs) > 1
            )
        time.sleep(WATCHED_SECONDS)
        requests = audit.requests()
        yield {
            name: Takeover(
                world=world,
                state=states[name],
                history=histories[name],
                before=before[name],
                after=_objects(world),
                steps=[(spec.partition, spec.replicas) for spec in histories[name].leader_specs()],
                frames=histories[name].pods(),
                written=[
                    request
                    for request in requests
                    if request.is_write and request.namespace == world.namespace
                ],
            )
            for name, world in worlds.items()
        }


def _dashed(name: str) -> str:
    return name.replace(".", "-")


def _status(world: World) -> Object:
    status: Object = world.get(SET, "web").get("status") or {}
    return status


def _objects(world: World) -> dict[str, Object]:
    kinds = (SET, "StatefulSet", "Pod", "Service", "ControllerRevision")
    return {f"{kind} {name_of(obj)}": obj for kind in kinds for obj in world.list(kind)}


def _index(pod: Object) -> int:
    return int(name_of(pod).split("-")[1])


def untouched(kind: str) -> Callable[[dict[str, Object]], dict[str, tuple[Any, ...]]]:
    return lambda objects: {
        title: identity(obj) for title, obj in objects.items() if title.startswith(f"{kind} ")
    }


@pytest.mark.parametrize("name", names())
def test_the_stored_objects_equal_the_described_ones(takeovers: dict[str, Takeover], name: str) -> None:
    """Otherwise these files would describe a state that never existed."""
    takeover = takeovers[name]
    described, actual = takeover.state.leaders, takeover.before["StatefulSet web"]
    # The states are from clusters whose StatefulSets lack maxUnavailable.
    update = actual["spec"]["updateStrategy"]
    rolling = {key: value for key, value in update["rollingUpdate"].items() if key != "maxUnavailable"}
    assert {**actual["spec"], "updateStrategy": {**update, "rollingUpdate": rolling}} == described["spec"]
    for part in ("labels", "annotations"):
        assert actual["metadata"][part] == described["metadata"][part]
    (applied,) = [entry for entry in actual["metadata"]["managedFields"] if entry["operation"] == "Apply"]
    owned = dict(described["metadata"]["managedFields"][0]["fieldsV1"])
    uid = takeover.before[f"{SET} web"]["metadata"]["uid"]
    owned["f:metadata"] = {**owned["f:metadata"], "f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}
    assert applied["fieldsV1"] == owned
    defaults = {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}
    assert takeover.before[f"{SET} web"]["spec"] == {**defaults, **takeover.state.lws["spec"]}
    keys = {name_of(pod): labels_of(pod)[REVISION_LABEL] for pod in takeover.state.of_kind("Pod")}
    pods = [obj for title, obj in takeover.before.items() if title.startswith("Pod ")]
    assert {name_of(pod): labels_of(pod)[REVISION_LABEL] for pod in pods} == keys


@pytest.mark.parametrize("name", AT_REST)
def test_only_history_and_status_of_a_settled_set_change(takeovers: dict[str, Takeover], name: str) -> None:
    takeover = takeovers[name]
    for kind in ("Pod", "StatefulSet", "Service", SET):
        assert untouched(kind)(takeover.after) == untouched(kind)(takeover.before)
    assert {request.resource for request in takeover.written} <= OURS_TO_WRITE, takeover.written
    assert all(request.code < 300 for request in takeover.written), takeover.written
    revisions = {title for title in takeover.before if title.startswith("ControllerRevision ")}
    assert revisions <= takeover.after.keys()
    assert len(takeover.after.keys() - takeover.before.keys()) == (1 if "without-history" in name else 0)
    warned = {event.reason for event in events_of(takeover.world, "web") if event.type != "Normal"}
    # These StatefulSets specify that the PVCs of workers are deleted with their group.
    assert warned == ({"ClaimsGoWithGroups"} if "with-claims" in name else set())


@pytest.mark.parametrize("name", AT_REST)
def test_the_status_of_a_settled_set_names_the_running_revision(
    takeovers: dict[str, Takeover], name: str
) -> None:
    takeover = takeovers[name]
    status = takeover.after[f"{SET} web"]["status"]
    key = labels_of(takeover.after["StatefulSet web"])[REVISION_LABEL]
    update = takeover.after[f"ControllerRevision {status['updateRevision']}"]
    assert labels_of(update)[REVISION_LABEL] == key
    if name != "at-rest-canary":
        assert status["currentRevision"] == status["updateRevision"]
    described = takeover.state.lws["status"]
    counters = ("replicas", "readyReplicas", "updatedReplicas", "hpaPodSelector")
    assert {counter: status[counter] for counter in counters} == {
        counter: described[counter] for counter in counters
    }


def test_a_recorded_revision_is_read_back_byte_for_byte(takeovers: dict[str, Takeover]) -> None:
    """Upstream would compare the text itself, not its meaning."""
    takeover, recorded = takeovers["at-rest-without-history"], load("at-rest-v0.10").revisions[0]
    (revision,) = revisions_of(takeover.world, "web")
    path = takeover.world.path("ControllerRevision", name_of(revision))
    text = takeover.world.kubectl("get", "--raw", path)
    assert serialised(recorded["data"]) in text


@pytest.mark.parametrize(
    ("name", "first"),
    NEXT_STEPS.items(),
)
def test_a_rollout_continues_with_the_next_step(
    takeovers: dict[str, Takeover], name: str, first: list[tuple[int, int]]
) -> None:
    takeover = takeovers[name]
    assert takeover.steps[:2] == first
    partitions = [partition for partition, _ in takeover.steps[1:]]
    assert partitions == sorted(partitions, reverse=True)
    # Groups on the target revision are not replaced again, and the others only within the budget.
    stays = [
        index
        for index in takeover.updated
        if index < takeover.steps[-1][1] and name != "mid-rollout-recorded"
    ]
    assert takeover.pods_of(stays, takeover.after) == takeover.pods_of(stays, takeover.before)
    assert min(len(ready_groups(frame)) for frame in takeover.frames) >= 3


def test_a_rollout_waits_for_its_current_step(takeovers: dict[str, Takeover]) -> None:
    takeover = takeovers["mid-rollout-waiting"]
    assert takeover.steps == [(1, 5)]
    assert takeover.pods_of(range(5), takeover.after) == takeover.pods_of(range(5), takeover.before)


@pytest.fixture(scope="module")
def finished(takeovers: dict[str, Takeover], local_cluster: LocalCluster) -> dict[str, Takeover]:
    """All sets, settled."""
    for takeover in takeovers.values():
        for index in takeover.state.unready:
            local_cluster.pods.set_ready(takeover.world.namespace, f"web-{index}", True)
    for takeover in takeovers.values():
        settle(takeover.world, "web", updated=2 if takeover.state.name == "at-rest-canary" else None)
    return takeovers


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("mid-rollout")])
def test_a_rollout_is_completed(finished: dict[str, Takeover], name: str) -> None:
    takeover = finished[name]
    assert images_of(takeover.world, "web") == {index: {"server:2"} for index in range(4)}
    once = takeover.updated if name != "mid-rollout-recorded" else {4}
    leaders = takeover.history.leaders()
    assert {index: len(uids) for index, uids in leaders.items()} == {
        index: 1 if index in once else 2 for index in range(5)
    }


def test_an_unrecorded_edit_is_rolled_out(finished: dict[str, Takeover]) -> None:
    takeover = finished["edited-without-history"]
    assert images_of(takeover.world, "web") == {0: {"server:1", "server:2"}, 1: {"server:1", "server:2"}}
    assert {len(uids) for uids in takeover.history.leaders().values()} == {2}
    running, target = revisions_of(takeover.world, "web")
    keys = [labels_of(revision)[REVISION_LABEL] for revision in (running, target)]
    assert keys[0] == labels_of(takeover.state.leaders)[REVISION_LABEL]
    assert keys[1] == labels_of(takeover.world.get("StatefulSet", "web"))[REVISION_LABEL]


@pytest.mark.parametrize("name", AT_REST)
def test_no_pod_of_a_settled_set_is_restarted(finished: dict[str, Takeover], name: str) -> None:
    takeover = finished[name]
    assert untouched("Pod")(_objects(takeover.world)) == untouched("Pod")(takeover.before)
