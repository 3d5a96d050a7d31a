"""Tests of the PodDisruptionBudget of a set: its limit, its repairs and its ownership."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.leaderworkerset.assessment.ownership import may_be_adopted
from lws.leaderworkerset.children.disruption_budget import (
    build_disruption_budget,
    disruption_limit,
    max_unavailable_now,
    wants_disruption_budget,
)
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.rollout.groups import DesiredGroups, group_states
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Create, Delete, Merge, SetOwner
from lws.runtime.children import LABELS_DIFFER
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.unit import api_server
from test.unit.builders import KEY, NOW, make_leader_pod, make_set, make_worker_statefulset, trim
from test.unit.set_world import actions_of, carried_out, settled, with_groups, with_spec

OTHER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}


def a_set(replicas: int = 3, size: int = 2, **budget: Any) -> dict[str, Any]:
    """Return a set with a disruption budget, whose fields are `budget`."""
    return make_set(replicas=replicas, size=size, podDisruptionBudget=budget)


@pytest.mark.parametrize(
    ("max_unavailable_groups", "replicas", "limit"),
    [
        pytest.param(None, 3, 1, id="1 by default"),
        pytest.param(None, 1, None, id="no budget by default with 1 replica"),
        pytest.param(None, 0, None, id="no budget with 0 replicas"),
        pytest.param(1, 1, 1, id="a number with 1 replica"),
        pytest.param(2, 8, 2, id="a number"),
        pytest.param(0, 8, 0, id="0 allows no eviction"),
        pytest.param("0%", 1, 0, id="0% allows no eviction"),
        pytest.param("25%", 8, 2, id="a percentage"),
        pytest.param("25%", 11, 2, id="a percentage is rounded down"),
        pytest.param("25%", 3, 1, id="a percentage is at least 1 group"),
        pytest.param("25%", 1, None, id="no budget for a percentage with 1 replica"),
        pytest.param("100%", 1, 1, id="100% with 1 replica"),
        pytest.param(-1, 3, 0, id="a negative number counts as 0"),
        pytest.param(2**31, 3, 2**31 - 1, id="at most the largest int32"),
    ],
)
def test_disruption_limit(max_unavailable_groups: Any, replicas: int, limit: int | None) -> None:
    budget = {} if max_unavailable_groups is None else {"maxUnavailableGroups": max_unavailable_groups}
    assert disruption_limit(SetSpec.of(a_set(replicas, **budget))) == limit


@pytest.mark.parametrize(
    ("lws", "expected"),
    [
        pytest.param(make_set(), False, id="absent"),
        pytest.param(make_set(podDisruptionBudget=None), False, id="null"),
        pytest.param(a_set(), True, id="empty object"),
        pytest.param(a_set(maxUnavailableGroups="many"), False, id="invalid limit"),
    ],
)
def test_a_set_wants_a_budget_only_with_a_valid_field(lws: dict[str, Any], expected: bool) -> None:
    assert wants_disruption_budget(SetSpec.of(lws)) is expected


def test_a_set_without_the_field_has_no_disruption_limit() -> None:
    assert disruption_limit(SetSpec.of(make_set())) is None
    assert disruption_limit(SetSpec.of(make_set(podDisruptionBudget=None))) is None


def test_built_disruption_budget() -> None:
    lws = a_set()
    assert build_disruption_budget(lws, 1) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "labels": {NAME_LABEL: "demo"},
            "ownerReferences": [
                {
                    "apiVersion": "leaderworkerset.x-k8s.io/v1",
                    "kind": "LeaderWorkerSet",
                    "name": "demo",
                    "uid": lws["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {NAME_LABEL: "demo"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


@dataclass(frozen=True)
class GroupShape:
    """The state of one group.

    leader: ready, starting, leaving or gone.
    workers: how many exist and how many of them are ready; None without a StatefulSet. The disruption
    controller does not count missing workers of a StatefulSet that has no pods.
    """

    leader: str
    workers: tuple[int, int] | None

    def is_serving(self, size: int) -> bool:
        return self.leader == "ready" and (size == 1 or self.workers == (size - 1, size - 1))

    def missing(self, size: int) -> int:
        existing, ready = self.workers or (0, 0)
        return (self.leader != "ready") + (size - 1 - ready if existing else 0)

    def facts(self, lws: dict[str, Any], index: int) -> tuple[GroupFacts, ...]:
        if self.leader == "gone":
            return ()
        ready = self.leader == "ready"
        pod = make_leader_pod(lws, index, ready=ready, terminating=self.leader == "leaving")
        workers = None
        if self.workers is not None:
            existing, available = self.workers
            workers = make_worker_statefulset(
                pod, status={"replicas": existing, "availableReplicas": available}
            )
        uids = tuple(f"u-{number}" for number in range(self.workers[0] if self.workers else 0))
        return (GroupFacts(index, pod, workers, worker_uids=uids),)


def shapes(size: int) -> list[GroupShape]:
    leaders = ("ready", "starting", "leaving", "gone")
    if size == 1:
        return [GroupShape(leader, None) for leader in leaders]
    counts = [(existing, ready) for existing in range(size) for ready in range(existing + 1)]
    return [GroupShape(leader, workers) for leader in leaders for workers in (None, *counts)]


@pytest.mark.parametrize("size", [1, 3])
def test_evictions_never_disrupt_more_groups_than_the_limit_allows(size: int) -> None:
    """Checked in all states of three groups, with the arithmetic of Kubernetes' disruption controller."""
    lws = make_set(replicas=3, size=size)
    desired = DesiredGroups(KEY, {KEY: size})
    allowed_evictions = 0
    # Built once each: they occur in thousands of combinations.
    facts_by_shape = {(shape, index): shape.facts(lws, index) for shape in shapes(size) for index in range(3)}
    for groups in itertools.combinations_with_replacement(shapes(size), 3):
        facts = tuple(
            group_facts for index, group in enumerate(groups) for group_facts in facts_by_shape[group, index]
        )
        snapshot = SetSnapshot(lws, NOW, groups=facts)
        serving = sum(group.is_serving(size) for group in groups)
        states, missing = group_states(facts, desired), sum(group.missing(size) for group in groups)
        for limit in range(4):
            evictions = max(0, max_unavailable_now(limit, snapshot, states) - missing)
            assert min(serving, evictions) <= max(0, limit - (3 - serving)), (limit, groups)
            allowed_evictions += evictions
    assert allowed_evictions


@pytest.mark.parametrize(
    ("groups", "limit", "max_unavailable"),
    [
        pytest.param("+++", 1, 1, id="no group is disrupted"),
        pytest.param("+++", 2, 2, id="no group is disrupted, limit 2"),
        pytest.param("++-", 1, 0, id="one group is disrupted"),
        pytest.param("+--", 2, 0, id="two groups are disrupted"),
        pytest.param("++-", 2, 2, id="a group with an unready worker, which Kubernetes counts"),
        pytest.param("++.", 2, 1, id="a group without pods"),
        pytest.param("++o", 2, 1, id="a group without workers"),
        pytest.param("++~", 2, 1, id="a group whose only worker is terminating"),
        pytest.param("++", 2, 1, id="a group without a leader"),
        pytest.param("++++", 1, 1, id="a surge group"),
        pytest.param("+++-", 1, 1, id="a surge group that starts"),
        pytest.param("++-+", 1, 1, id="a ready surge group replaces a disrupted group"),
        pytest.param("+++", 0, 0, id="limit 0"),
    ],
)
def test_max_unavailable(groups: str, limit: int, max_unavailable: int) -> None:
    """+ ready, - a worker is not ready, ~ a worker is terminating, o no worker yet, . the leader is
    terminating.
    """
    lws = make_set(replicas=3, size=2)
    serving, terminating = GroupShape("ready", (1, 1)), GroupShape("leaving", None)
    seen = {
        "+": serving,
        "-": GroupShape("ready", (1, 0)),
        "~": GroupShape("ready", (0, 0)),
        "o": GroupShape("ready", None),
        ".": terminating,
    }
    facts = tuple(
        group_facts for index, sign in enumerate(groups) for group_facts in seen[sign].facts(lws, index)
    )
    states = group_states(facts, DesiredGroups(KEY, {KEY: 2}))
    assert max_unavailable_now(limit, SetSnapshot(lws, NOW, groups=facts), states) == max_unavailable


def stored_budget(snapshot: SetSnapshot) -> Mapping[str, Any]:
    assert snapshot.pod_disruption_budget is not None
    return snapshot.pod_disruption_budget


def the_action(snapshot: SetSnapshot) -> Any:
    (action,) = actions_of(plan(snapshot))
    return action


def test_a_budget_is_created_once() -> None:
    snapshot = settled(a_set())
    assert stored_budget(snapshot)["spec"]["maxUnavailable"] == 1
    assert plan(snapshot).is_empty


def test_max_unavailable_follows_disrupted_groups() -> None:
    snapshot = settled(a_set())
    ready = snapshot.groups
    leaving = copy.deepcopy(dict(ready[2].leader))
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    disrupted = replace(snapshot, groups=(*ready[:2], replace(ready[2], leader=leaving)))
    action = the_action(disrupted)
    assert isinstance(action, Merge) and action.patch == {"spec": {"maxUnavailable": 0}}
    after = carried_out(disrupted, plan(disrupted))
    assert stored_budget(after)["spec"]["maxUnavailable"] == 0
    again = the_action(replace(after, groups=ready))
    assert again.patch == {"spec": {"maxUnavailable": 1}}


EDITS: list[Any] = [
    pytest.param({"maxUnavailable": "50%"}, {"spec": {"maxUnavailable": 1}}, id="maxUnavailable"),
    pytest.param(
        {"maxUnavailable": None, "minAvailable": 1},
        {"spec": {"maxUnavailable": 1, "minAvailable": None}},
        id="minAvailable",
    ),
    pytest.param(
        {"selector": {"matchLabels": {NAME_LABEL: "demo", "a": "b"}, "matchExpressions": []}},
        {"spec": {"selector": {"matchLabels": {"a": None}, "matchExpressions": None}}},
        id="selector",
    ),
    pytest.param(
        {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
        {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        id="unhealthyPodEvictionPolicy",
    ),
    pytest.param({"unhealthyPodEvictionPolicy": None}, None, id="a field that the API server drops"),
    pytest.param({"somethingNew": 1}, None, id="an unmanaged field"),
]


@pytest.mark.parametrize(("edit", "patch"), EDITS)
def test_edits_by_other_clients_are_repaired(edit: dict[str, Any], patch: dict[str, Any] | None) -> None:
    snapshot = settled(a_set())
    edited = copy.deepcopy(dict(stored_budget(snapshot)))
    edited["spec"] = {
        field: value for field, value in {**edited["spec"], **edit}.items() if value is not None
    }
    planned = plan(replace(snapshot, pod_disruption_budget=edited))
    assert [action.patch for action in actions_of(planned) if isinstance(action, Merge)] == (
        [patch] if patch else []
    )


def test_name_label_is_repaired() -> None:
    snapshot = settled(a_set())
    edited = copy.deepcopy(dict(stored_budget(snapshot)))
    edited["metadata"]["labels"] = {}
    action = the_action(replace(snapshot, pod_disruption_budget=edited))
    assert action.patch == {"metadata": {"labels": {NAME_LABEL: "demo"}}}
    assert action.why == LABELS_DIFFER


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        pytest.param({"maxUnavailable": 3}, "groups that may be disrupted: 1", id="maxUnavailable"),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
            "differs from the desired state: unhealthyPodEvictionPolicy",
            id="another field",
        ),
        pytest.param(
            {"maxUnavailable": 3, "unhealthyPodEvictionPolicy": "IfHealthyBudget"},
            "groups that may be disrupted: 1; differs from the desired state: unhealthyPodEvictionPolicy",
            id="both",
        ),
    ],
)
def test_reason_of_a_repair(edit: dict[str, Any], why: str) -> None:
    snapshot = settled(a_set())
    edited = copy.deepcopy(dict(stored_budget(snapshot)))
    edited["spec"] |= edit
    assert the_action(replace(snapshot, pod_disruption_budget=edited)).why == why


def test_a_deleted_budget_is_recreated() -> None:
    action = the_action(settled(a_set(), pod_disruption_budget=None))
    assert isinstance(action, Create) and action.intent["kind"] == "PodDisruptionBudget"
    assert action.failure is not None and action.failure.reason == "FailedCreate"
    assert action.failure.note == "Failed to create pod disruption budget demo"


@pytest.mark.parametrize(
    "without",
    [make_set(replicas=3), a_set(replicas=1), a_set(replicas=0)],
    ids=["no field", "1 replica", "0 replicas"],
)
def test_the_budget_is_deleted_when_no_longer_wanted(without: dict[str, Any]) -> None:
    snapshot = with_spec(settled(a_set()), without)
    budget = stored_budget(snapshot)
    planned = plan(snapshot)
    (delete,) = (action for action in actions_of(planned) if isinstance(action, Delete))
    assert (delete.target.kind, delete.target.uid) == ("PodDisruptionBudget", budget["metadata"]["uid"])
    assert carried_out(snapshot, planned).pod_disruption_budget is None


def existing_budget(lws: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    budget = api_server.stored(build_disruption_budget(lws, 1))
    change(budget["metadata"])
    return budget


def test_another_owners_budget_is_left_alone_and_reported() -> None:
    lws = a_set()
    foreign = existing_budget(lws, lambda metadata: metadata.update(ownerReferences=[OTHER], labels={}))
    snapshot = settled(lws, pod_disruption_budget=foreign, owners_alive=frozenset({"u-9"}))
    planned = plan(snapshot)
    assert actions_of(planned) == []
    assert planned.again_after == 30
    assert [(event.type, event.reason) for event in planned.announce] == [("Warning", "NameClash")]
    after = carried_out(snapshot, planned)
    condition = find(after.lws["status"]["conditions"], "ReplicaFailure")
    assert condition is not None and condition["message"].startswith(
        "PodDisruptionBudget demo exists and is controlled by Thing theirs"
    )
    unwanted = with_groups(with_spec(snapshot, make_set(replicas=3)))
    assert not any(action for action in actions_of(plan(unwanted)) if isinstance(action, Delete))


def test_an_orphan_that_the_set_could_have_created_is_adopted() -> None:
    lws = a_set()
    orphan = existing_budget(lws, lambda metadata: metadata.pop("ownerReferences"))
    snapshot = settled(lws)
    action = the_action(replace(snapshot, pod_disruption_budget=orphan, set_read_live=snapshot.lws))
    assert isinstance(action, SetOwner) and action.owner["uid"] == lws["metadata"]["uid"]


def test_a_users_own_budget_is_not_adopted_regardless_of_its_labels() -> None:
    """An adopted object is deleted with the set."""
    lws = a_set()

    def created_by_a_user(metadata: dict[str, Any]) -> None:
        metadata.pop("ownerReferences")
        metadata["managedFields"] = [{**metadata["managedFields"][0], "manager": "kubectl"}]

    snapshot = settled(lws)
    users = trim(existing_budget(lws, created_by_a_user))
    assert not may_be_adopted(users), "passes do not read it again"
    planned = plan(replace(snapshot, pod_disruption_budget=users, set_read_live=snapshot.lws))
    assert actions_of(planned) == []
    assert [event.reason for event in planned.announce] == ["NameClash"]


def test_a_terminating_budget_is_waited_for() -> None:
    lws = a_set()
    terminating = existing_budget(
        lws, lambda metadata: metadata.update(deletionTimestamp="2026-03-01T12:00:00Z")
    )
    planned = plan(settled(lws, pod_disruption_budget=terminating))
    assert actions_of(planned) == [] and "PodDisruptionBudget" in planned.waiting_for


def test_an_invalid_limit_changes_nothing_and_is_reported() -> None:
    snapshot = with_spec(settled(a_set()), a_set(maxUnavailableGroups="many"))
    planned = plan(snapshot)
    assert actions_of(planned) == []
    assert [(event.reason, event.note.partition(":")[0]) for event in planned.announce] == [
        ("InvalidDisruptionBudget", "spec.podDisruptionBudget.maxUnavailableGroups")
    ]
