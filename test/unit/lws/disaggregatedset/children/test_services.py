"""Tests of Services of roles: their shape, when they are created and deleted, and their owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.disaggregatedset.children.services import build_service, plan_services
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.runtime.actions import Action, Create, Delete, Merge, Plan, SetOwner
from test.unit.lws.disaggregatedset.sets import KEY, OWNER, facts, make_disaggregated, make_role, snapshot_of

OLD = "28d81a04"
SET = make_disaggregated()
READY = (facts("prefill"), facts("decode"))
OLD_READY = (facts("prefill", OLD), facts("decode", OLD))


def service(role: str, key: str = KEY, index: int = 0, is_legacy: bool = False) -> dict[str, Any]:
    result = build_service(SET, Identity(index, key, role, is_legacy))
    result["metadata"]["uid"] = f"uid-{result['metadata']['name']}"
    return result


SERVICES = (service("prefill"), service("decode"))
OLD_SERVICES = (service("prefill", OLD), service("decode", OLD))


def plan(seen: DisaggregatedSnapshot, recorded: dict[str, tuple[str, ...]] | None = None) -> Plan:
    return plan_services(seen, parse(seen.obj), KEY, recorded or {})


def actions(planned: Plan) -> list[Action]:
    return [action for sequence in planned.sequences for action in sequence]


def names(planned: Plan, kind: type[Create] | type[Delete]) -> set[str]:
    result = set()
    for action in actions(planned):
        if isinstance(action, kind):
            result.add(
                action.intent["metadata"]["name"] if isinstance(action, Create) else action.target.name
            )
    return result


def both(key: str, index: int = 0) -> set[str]:
    return {f"llm-{index}-{key}-prefill-prv", f"llm-{index}-{key}-decode-prv"}


@pytest.mark.parametrize(
    ("identity", "name", "more"),
    [
        pytest.param(
            Identity(2, KEY, "decode"),
            f"llm-2-{KEY}-decode-prv",
            {"disaggregatedset.x-k8s.io/slice": "2"},
            id="of a slice",
        ),
        pytest.param(Identity(0, KEY, "decode", True), f"llm-{KEY}-decode-prv", {}, id="legacy"),
    ],
)
def test_a_service_matches_upstream(identity: Identity, name: str, more: dict[str, str]) -> None:
    labels = {
        "disaggregatedset.x-k8s.io/name": "llm",
        "disaggregatedset.x-k8s.io/role": "decode",
        "disaggregatedset.x-k8s.io/revision": KEY,
        **more,
    }
    assert build_service(SET, identity) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [OWNER]},
        "spec": {"clusterIP": "None", "selector": labels},
    }


def test_services_are_created_once_every_role_has_a_ready_group() -> None:
    assert names(plan(snapshot_of(SET, READY)), Create) == both(KEY)
    assert plan(snapshot_of(SET, (READY[0], replace(READY[1], ready=0)))).is_empty
    assert plan(snapshot_of(SET, READY[:1])).is_empty
    assert plan(
        snapshot_of(SET, (READY[0], facts("decode", deletionTimestamp="2026-03-01T12:00:00Z")))
    ).is_empty


def test_wart_31_complete_services_are_not_written() -> None:
    assert plan(snapshot_of(SET, READY, SERVICES)).is_empty


def test_missing_services_are_recreated_for_old_revisions_too() -> None:
    seen = snapshot_of(SET, (*READY, *OLD_READY), (SERVICES[0], OLD_SERVICES[1]))
    assert names(plan(seen), Create) == {f"llm-0-{KEY}-decode-prv", f"llm-0-{OLD}-prefill-prv"}


def test_both_revisions_have_services_during_a_rollout() -> None:
    assert plan(snapshot_of(SET, (*READY, *OLD_READY), (*SERVICES, *OLD_SERVICES))).is_empty


def test_old_services_are_deleted_with_the_last_ready_group_of_any_role_of_their_revision() -> None:
    old = (facts("prefill", OLD), facts("decode", OLD, ready=0))
    assert names(plan(snapshot_of(SET, (*READY, *old), (*SERVICES, *OLD_SERVICES))), Delete) == both(OLD)
    assert names(plan(snapshot_of(SET, READY, (*SERVICES, *OLD_SERVICES))), Delete) == both(OLD)


def test_old_services_are_kept_until_the_target_revision_serves() -> None:
    new = (facts("prefill"), facts("decode", ready=0))
    old = (facts("prefill", OLD), facts("decode", OLD, ready=0))
    assert plan(snapshot_of(SET, (*new, *old), OLD_SERVICES)).is_empty


def test_wart_3_services_of_users_are_not_deleted() -> None:
    mine = service("prefill", OLD)
    mine["metadata"]["ownerReferences"] = []
    by_name = {("Service", mine["metadata"]["name"]): mine}
    assert names(plan(snapshot_of(SET, READY, SERVICES, strangers=by_name)), Delete) == set()


def test_wart_4_old_services_are_kept_when_a_role_is_added() -> None:
    obj = make_disaggregated(make_role("prefill"), make_role("decode"), make_role("router"))
    children = (*READY, facts("router"), *OLD_READY)
    services = (*SERVICES, service("router"), *OLD_SERVICES)
    assert plan(snapshot_of(obj, children, services)).is_empty


def test_a_revision_that_lost_a_child_is_incomplete() -> None:
    seen = snapshot_of(SET, (*READY, OLD_READY[0]), (*SERVICES, *OLD_SERVICES))
    recorded = {OLD: ("prefill", "decode")}
    assert names(plan(seen, recorded), Delete) == both(OLD)
    assert names(plan(snapshot_of(SET, READY, SERVICES), {OLD: ("a",)}), Create) == set()


@pytest.mark.parametrize("scaler", [(), ({"metadata": {"name": "llm-prefill"}, "spec": {"replicas": 0}},)])
def test_wart_28_a_role_with_zero_replicas_does_not_block_services(
    scaler: tuple[dict[str, Any], ...],
) -> None:
    external = make_role("prefill", role={"scaling": {"mode": "External"}})
    obj = make_disaggregated(external, make_role("decode"))
    children = (facts("prefill", desired=0, ready=0), facts("decode"))
    assert names(plan(snapshot_of(obj, children, scalers=scaler)), Create) == both(KEY)


def test_a_role_that_is_not_scaled_up_yet_blocks_services() -> None:
    assert plan(snapshot_of(SET, (facts("prefill", desired=0, ready=0), facts("decode")))).is_empty


def test_an_external_role_has_replicas_in_each_slice() -> None:
    external = make_role("prefill", role={"scaling": {"mode": "External"}})
    obj = make_disaggregated(external, make_role("decode"), slices=2)
    scaler = {"metadata": {"name": "llm-prefill"}, "spec": {"replicas": 1}}
    children = [facts(role, slice_index=index) for role in ("prefill", "decode") for index in (0, 1)]
    children = [replace(child, ready=0) if child.role == "prefill" else child for child in children]
    assert names(plan(snapshot_of(obj, tuple(children), scalers=(scaler,))), Create) == both(KEY, 1)


@pytest.mark.parametrize(("initial", "deleted"), [("0", set()), (None, set()), ("4", both(OLD))])
def test_a_drained_role_ends_its_revision_unless_it_started_at_zero(
    initial: str | None, deleted: set[str]
) -> None:
    old = (facts("prefill", OLD, desired=0, ready=0, initial=initial), facts("decode", OLD))
    assert names(plan(snapshot_of(SET, (*READY, *old), (*SERVICES, *OLD_SERVICES))), Delete) == deleted


def test_a_set_scaled_to_zero_keeps_its_services_and_gets_no_new_ones() -> None:
    obj = make_disaggregated(make_role("prefill", replicas=0), make_role("decode", replicas=0))
    children = (facts("prefill", desired=0, ready=0), facts("decode", desired=0, ready=0))
    assert plan(snapshot_of(obj, children)).is_empty
    assert plan(snapshot_of(obj, children, SERVICES)).is_empty


def test_slices_are_independent() -> None:
    obj = make_disaggregated(slices=2)
    children = (*READY, facts("prefill", slice_index=1), facts("decode", slice_index=1, ready=0))
    assert names(plan(snapshot_of(obj, children)), Create) == both(KEY)


def test_services_of_removed_slices_are_deleted() -> None:
    services = (*SERVICES, service("prefill", index=1), service("decode", OLD, index=7))
    assert names(plan(snapshot_of(SET, READY, services)), Delete) == {
        f"llm-1-{KEY}-prefill-prv",
        f"llm-7-{OLD}-decode-prv",
    }


def test_legacy_services_are_kept_as_long_as_their_children() -> None:
    children = (facts("prefill", is_legacy=True), facts("decode", is_legacy=True))
    services = (service("prefill", is_legacy=True), service("decode", is_legacy=True))
    assert plan(snapshot_of(SET, children, services)).is_empty
    assert names(plan(snapshot_of(SET, (), services)), Delete) == {
        f"llm-{KEY}-prefill-prv",
        f"llm-{KEY}-decode-prv",
    }


def test_other_services_of_the_set_are_not_changed() -> None:
    foreign = service("prefill")
    foreign["metadata"]["name"] = "llm-by-hand"
    terminating = service("prefill", OLD)
    terminating["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    assert plan(snapshot_of(SET, READY, (*SERVICES, foreign, terminating))).is_empty


def test_edited_services_are_repaired() -> None:
    edited = service("prefill")
    edited["metadata"]["labels"] = {"disaggregatedset.x-k8s.io/name": "llm", "mine": "kept"}
    edited["spec"]["selector"] = {**SERVICES[0]["spec"]["selector"], "more": "x"}
    (merge,) = actions(plan(snapshot_of(SET, READY, (edited, SERVICES[1]))))
    assert isinstance(merge, Merge)
    assert merge.patch == {
        "metadata": {
            "labels": {
                "disaggregatedset.x-k8s.io/role": "prefill",
                "disaggregatedset.x-k8s.io/revision": KEY,
                "disaggregatedset.x-k8s.io/slice": "0",
            }
        },
        "spec": {"selector": {"more": None}},
    }


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        pytest.param({"publishNotReadyAddresses": True}, {"publishNotReadyAddresses": False}, id="not ready"),
        pytest.param({"ports": [{"port": 80}]}, {"ports": None}, id="ports"),
    ],
)
def test_edits_of_ports_and_not_ready_addresses_are_repaired(
    spec: dict[str, Any], patch: dict[str, Any]
) -> None:
    edited = service("prefill")
    edited["spec"] |= spec
    (merge,) = actions(plan(snapshot_of(SET, READY, (edited, SERVICES[1]))))
    assert isinstance(merge, Merge)
    assert merge.patch == {"spec": patch}


def test_an_orphaned_service_is_adopted_and_a_foreign_one_is_not() -> None:
    orphan, stranger = service("prefill"), service("decode")
    orphan["metadata"]["ownerReferences"] = []
    stranger["metadata"]["ownerReferences"] = [{"kind": "App", "name": "x", "uid": "u", "controller": True}]
    by_name = {("Service", obj["metadata"]["name"]): obj for obj in (orphan, stranger)}
    planned = plan(snapshot_of(SET, READY, strangers=by_name, owners_alive=frozenset({"u"})))
    (adoption,) = actions(planned)
    assert isinstance(adoption, SetOwner)
    assert adoption.target.name == orphan["metadata"]["name"]
    (problem,) = planned.problems
    assert problem.reason == "NameClash"


def test_a_different_service_without_owner_is_a_name_clash() -> None:
    foreign = service("prefill")
    foreign["metadata"]["ownerReferences"] = []
    foreign["spec"] = {"clusterIP": "10.0.0.1", "selector": {"app": "x"}}
    planned = plan(
        snapshot_of(SET, READY, (SERVICES[1],), strangers={("Service", foreign["metadata"]["name"]): foreign})
    )
    assert not actions(planned)
    assert [problem.reason for problem in planned.problems] == ["NameClash"]
