"""Tests of scalers of roles: creation, upkeep and deletion, their first replicas and their status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.disaggregatedset.children.scalers import (
    build_scaler,
    plan_scalers,
    scaler_counts,
    share,
)
from lws.disaggregatedset.slices.state import RoleTargets, RolloutMemory, seed
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.runtime.actions import Action, Create, Delete, Merge, Plan, SetOwner
from test.unit.lws.disaggregatedset.sets import KEY, OWNER, facts, make_disaggregated, make_role, snapshot_of

OLD = "28d81a04"
EXTERNAL = {"scaling": {"mode": "External"}}
SET = make_disaggregated(make_role("prefill", role=EXTERNAL), make_role("decode"))
STATIC = make_disaggregated()
NAME = ("DisaggregatedSetRoleScaler", "llm-prefill")


def scaler(replicas: int | None = 3, role: str = "prefill") -> dict[str, Any]:
    result = build_scaler(SET, role, replicas or 0)
    result["metadata"] |= {"uid": f"uid-{role}", "generation": 2}
    result["spec"] = {"replicas": replicas} if replicas is not None else {}
    return result


def settled(replicas: int = 3, existing: int = 1) -> dict[str, Any]:
    selector = (
        "disaggregatedset.x-k8s.io/name=llm,disaggregatedset.x-k8s.io/role=prefill,"
        "leaderworkerset.sigs.k8s.io/worker-index=0"
    )
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Bound",
        "message": "Scaler bound to a live DisaggregatedSet role",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    status = {
        "replicas": existing,
        "selector": selector,
        "observedGeneration": 2,
        "conditions": [condition],
    }
    return {**scaler(replicas), "status": status}


def plan(seen: DisaggregatedSnapshot) -> Plan:
    spec = parse(seen.obj)
    return plan_scalers(seen, spec.slices, RoleTargets(seen, spec, KEY).seeds)


def actions(planned: Plan) -> list[Action]:
    return [action for sequence in planned.sequences for action in sequence]


def test_a_scaler_is_created_for_each_external_role() -> None:
    (create,) = actions(plan(snapshot_of(SET)))
    assert isinstance(create, Create)
    assert create.intent == {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSetRoleScaler",
        "metadata": {
            "name": "llm-prefill",
            "namespace": "default",
            "labels": {
                "disaggregatedset.x-k8s.io/name": "llm",
                "disaggregatedset.x-k8s.io/role": "prefill",
            },
            "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
        },
        "spec": {"replicas": 1},
    }
    (event,) = create.announce
    assert (event.reason, event.action, event.type) == ("ScalerCreated", "Create", "Normal")
    assert event.note == "Created scaler llm-prefill for role prefill"


def test_the_scaler_of_a_role_that_is_no_longer_external_is_deleted() -> None:
    (delete,) = actions(plan(snapshot_of(STATIC, scalers=(scaler(),))))
    assert isinstance(delete, Delete)
    assert delete.target.name == "llm-prefill"
    (event,) = delete.announce
    assert (event.reason, event.action) == ("ScalerDeleted", "Delete")
    assert event.note == "Deleted scaler llm-prefill (role prefill is no longer External)"


def test_wart_31_a_scaler_without_changes_is_not_written() -> None:
    assert plan(snapshot_of(SET, (facts("prefill"),), scalers=(settled(),))).is_empty


def test_the_status_says_how_many_groups_there_are_and_which_pods_to_measure() -> None:
    children = (
        facts("prefill", desired=2),
        facts("prefill", OLD, desired=3),
        facts("prefill", slice_index=1, desired=4),
        facts("decode", desired=9),
    )
    (status,) = plan(snapshot_of(SET, children, scalers=(scaler(),))).statuses
    assert status.patch == {**settled()["status"], "replicas": 9}
    assert not status.can_wait


def test_only_changed_fields_are_written_and_counts_can_wait() -> None:
    (status,) = plan(snapshot_of(SET, (facts("prefill", desired=5),), scalers=(settled(),))).statuses
    assert status.patch == {"replicas": 5}
    assert status.can_wait
    (reached,) = plan(snapshot_of(SET, (facts("prefill", desired=5),), scalers=(settled(5),))).statuses
    assert not reached.can_wait


def test_removed_replicas_and_edited_labels_are_restored() -> None:
    edited = {**settled(), "spec": {}}
    del edited["metadata"]["labels"]["disaggregatedset.x-k8s.io/role"]
    (merge,) = actions(plan(snapshot_of(SET, (facts("prefill", desired=4),), scalers=(edited,))))
    assert isinstance(merge, Merge)
    assert merge.patch == {
        "metadata": {"labels": {"disaggregatedset.x-k8s.io/role": "prefill"}},
        "spec": {"replicas": 4},
    }


def test_wart_18_a_foreign_scaler_is_not_changed_and_reported_once() -> None:
    foreign = scaler()
    foreign["metadata"]["ownerReferences"] = [{**OWNER, "name": "llm-b", "uid": "other"}]
    planned = plan(snapshot_of(SET, strangers={NAME: foreign}, owners_alive=frozenset({"other"})))
    assert not actions(planned) and not planned.statuses
    (event,) = planned.announce
    assert (event.reason, event.action, event.type, event.once) == (
        "ScalerConflict",
        "Conflict",
        "Warning",
        True,
    )
    note = "Scaler llm-prefill exists but is not controlled by this DisaggregatedSet; not adopting"
    assert event.note == planned.waiting_for == note
    assert [problem.is_reported for problem in planned.problems] == [True]


def test_an_orphaned_scaler_is_adopted_with_its_replicas() -> None:
    orphan = scaler(7)
    orphan["metadata"]["ownerReferences"] = []
    (adoption,) = actions(plan(snapshot_of(SET, strangers={NAME: orphan})))
    assert isinstance(adoption, SetOwner)
    assert adoption.owner == {**OWNER, "blockOwnerDeletion": True}
    assert not actions(plan(snapshot_of(SET, strangers={NAME: orphan}, is_alive=False)))


def test_a_terminating_scaler_is_not_replaced_before_it_is_deleted() -> None:
    terminating = scaler()
    terminating["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    planned = plan(snapshot_of(SET, scalers=(terminating,)))
    assert not actions(planned) and not planned.statuses
    assert planned.waiting_for == "the former scaler llm-prefill to be gone"
    assert plan(snapshot_of(STATIC, scalers=(terminating,))).is_empty


def test_scaler_counts_contain_only_scalers_with_replicas() -> None:
    scalers = (scaler(5), scaler(None, "decode"), scaler(0, "router"))
    assert scaler_counts(snapshot_of(SET, scalers=scalers)) == {"prefill": 5, "router": 0}


@pytest.mark.parametrize(
    ("total", "slices", "shares"), [(0, 2, [0, 0]), (5, 3, [2, 2, 1]), (6, 3, [2, 2, 2]), (1, 3, [1, 0, 0])]
)
def test_the_total_is_distributed_evenly_over_slices(total: int, slices: int, shares: list[int]) -> None:
    """Wart 22."""
    assert [share(total, slices, index) for index in range(slices)] == shares


def test_replicas_above_the_limit_of_a_set_are_capped_and_reported() -> None:
    assert [share(3_000_001, 2, index) for index in (0, 1)] == [1_000_000, 1_000_000]
    seen = snapshot_of(SET, scalers=(settled(1_000_001),))
    (problem,) = plan(seen).problems
    assert problem.reason == "TooManyReplicas"
    assert problem.message == (
        "role prefill: its scaler llm-prefill asks for 1000001 groups, 1000000 are possible in each slice; "
        "scale it down"
    )
    assert not plan(snapshot_of(SET, scalers=(settled(1_000_000),))).problems


@pytest.mark.parametrize(
    "spec", [{"replicas": -1}, {"replicas": "3"}, {"replicas": 2.5}, {"replicas": True}, [3]]
)
def test_invalid_replicas_count_as_missing(spec: Any) -> None:
    seen = snapshot_of(
        SET, (facts("prefill", desired=4), facts("decode")), scalers=({**settled(), "spec": spec},)
    )
    assert scaler_counts(seen) == {}
    (merge,) = actions(plan(seen))
    assert isinstance(merge, Merge) and merge.patch == {"spec": {"replicas": 4}}


MIXED = (facts("prefill", desired=4), facts("decode", desired=8))
AT_ZERO = facts("prefill", desired=0, ready=0)


@pytest.mark.parametrize(
    ("children", "slices", "expected"),
    [
        pytest.param((), 1, 1, id="no children"),
        pytest.param(MIXED, 1, 4, id="at rest"),
        pytest.param((*MIXED, facts("prefill", slice_index=1, desired=3)), 2, 7, id="two slices"),
        pytest.param(
            (*MIXED, facts("prefill", slice_index=1, desired=3)), 1, 4, id="wart 42: a removed slice"
        ),
        pytest.param(
            (facts("prefill", desired=2), facts("prefill", OLD, desired=3, initial="4")),
            1,
            4,
            id="wart 19: two revisions",
        ),
        pytest.param(
            (
                facts("prefill", desired=1),
                facts("prefill", OLD, desired=1, initial="1"),
                facts("prefill", "00000000", desired=2, initial="3"),
            ),
            1,
            4,
            id="three revisions",
        ),
        pytest.param((facts("prefill", OLD, desired=3), AT_ZERO), 1, 3, id="a new rollout without baseline"),
        pytest.param(
            (facts("prefill", desired=4, initial="2"), facts("prefill", OLD, desired=2, initial="3")),
            1,
            5,
            id="a reverted rollout",
        ),
        pytest.param(
            (facts("prefill", desired=3, initial="4"), facts("prefill", OLD, desired=2)),
            1,
            4,
            id="a rollout that is reverted now",
        ),
        pytest.param(
            (facts("prefill", OLD, desired=3, initial="4"), facts("prefill", "00000000", desired=2)),
            1,
            4,
            id="an interrupted rollout",
        ),
        pytest.param(
            (facts("prefill", OLD, desired=6, initial="2"),), 1, 6, id="scaled since the last rollout"
        ),
        pytest.param(
            (facts("prefill", desired=2, initial="5"),), 1, 2, id="scaled down since the last rollout"
        ),
        pytest.param((AT_ZERO, facts("decode", desired=0)), 1, 1, id="wart 42: all at 0"),
        pytest.param((AT_ZERO, facts("decode")), 1, 1, id="created with 0 replicas without a scaler"),
        pytest.param(
            (facts("prefill", desired=0, ready=0, generation=3), facts("decode")),
            1,
            0,
            id="scaled to 0 by its scaler",
        ),
        pytest.param(
            (facts("prefill", desired=4, deletionTimestamp="2026-03-01T12:00:00Z"),), 1, 1, id="being deleted"
        ),
        pytest.param((), 3, 3, id="no children, three slices"),
        pytest.param(
            (AT_ZERO, replace(AT_ZERO, slice_index=1)), 2, 2, id="created with 0 replicas in two slices"
        ),
        pytest.param((facts("prefill", desired=2),), 3, 3, id="two of three slices are new"),
        pytest.param((facts("prefill", desired=4),), 3, 4, id="with enough groups"),
        pytest.param(
            (facts("prefill", desired=1), replace(AT_ZERO, slice_index=1)),
            2,
            1,
            id="one slice is scaled to 0",
        ),
        pytest.param(
            (facts("prefill", desired=0, ready=0, generation=3), facts("decode")),
            2,
            0,
            id="scaled to 0, and a slice is new",
        ),
    ],
)
def test_seeds(children: tuple[ChildFacts, ...], slices: int, expected: int) -> None:
    assert seed(snapshot_of(SET, children), slices, "prefill", KEY) == expected


TO_KEY, TO_OLD = (
    RolloutMemory(KEY, {"llm-0-28d81a04-prefill": 6, "llm-0-28d81a04-decode": 6}),
    RolloutMemory(OLD, {f"llm-0-{KEY}-prefill": 4}, {"prefill": 4}),
)
PREFILL = (facts("prefill", desired=2), facts("prefill", OLD, desired=5, initial="3"))


def of_both(new: int, old: int) -> tuple[ChildFacts, ...]:
    return facts("prefill", desired=new, initial="4"), facts("prefill", OLD, desired=old)


def back(new: int, old: int) -> RolloutMemory:
    """Return the record of a reverted rollout that began with these groups of a role with 4."""
    return RolloutMemory(KEY, {f"llm-0-{KEY}-prefill": new, f"llm-0-{OLD}-prefill": old}, {"prefill": 4})


@pytest.mark.parametrize(
    ("children", "record", "expected"),
    [
        pytest.param(PREFILL, TO_KEY, 6, id="the record counts, not an annotation"),
        pytest.param(PREFILL[:1], TO_KEY, 6, id="a child was deleted since"),
        pytest.param(of_both(4, 4), TO_OLD, 4, id="reverted now, during a surge of all groups"),
        pytest.param(of_both(4, 1), TO_OLD, 4, id="reverted now, during a surge of one group"),
        pytest.param(of_both(2, 2), TO_OLD, 4, id="reverted now, half-way"),
        pytest.param(of_both(4, 6), TO_OLD, 6, id="reverted now, scaled since it began"),
        pytest.param(of_both(4, 4), back(4, 4), 4, id="reverted during a surge of all groups"),
        pytest.param(of_both(4, 1), back(4, 4), 4, id="reverted, almost done"),
        pytest.param(of_both(4, 1)[:1], back(4, 4), 4, id="reverted, a child was deleted since"),
        pytest.param(of_both(3, 2), back(2, 2), 4, id="reverted half-way"),
        pytest.param(
            (facts("prefill", "00000000", desired=2), facts("prefill", OLD, desired=3)),
            RolloutMemory("00000000", {"llm-0-28d81a04-prefill": 4}, {"prefill": 4}),
            4,
            id="an interrupted rollout",
        ),
        pytest.param((facts("prefill", OLD, desired=2),), TO_OLD, 2, id="a completed rollout, scaled since"),
    ],
)
def test_a_seed_counts_the_groups_with_which_the_rollout_began(
    children: tuple[ChildFacts, ...], record: RolloutMemory, expected: int
) -> None:
    status = {"rollouts": {"0": record.stored}}
    assert seed(snapshot_of({**SET, "status": status}, children), 1, "prefill", KEY) == expected
