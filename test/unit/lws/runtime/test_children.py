"""lws.runtime.children: the lifecycle of a child, for every ownership and policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws import timing
from lws.kube.metadata import owner_reference
from lws.kube.ownership import Ownership, ownership_of
from lws.kube.patches import with_merged
from lws.runtime.actions import Create, Delete, Merge, Object, Plan, Problem, Reference, SetOwner, merge_plans
from lws.runtime.children import (
    LABELS_DIFFER,
    Child,
    ChildOwner,
    plan_child,
    plan_obstacle,
    plan_unwanted,
    repair,
    repair_service,
)
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.unit.builders import make_set, trim

LWS = make_set()
REFERENCE = owner_reference(LWS)
OTHER = {**REFERENCE, "kind": "Thing", "name": "theirs", "uid": "u-9"}


def child(*owners: Object, is_like_ours: bool = True, **metadata: Any) -> dict[str, Any]:
    merged = {
        "name": "demo",
        "namespace": "default",
        "uid": "u-1",
        "labels": {NAME_LABEL: "demo"},
        **metadata,
    }
    merged["ownerReferences"] = list(owners)
    shape = {"ports": []} if is_like_ours else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": merged, **shape}


INTENT = child(REFERENCE)
CREATE = Create(INTENT, why="it is needed")
STORED: dict[Ownership, dict[str, Any] | None] = {
    Ownership.ABSENT: None,
    Ownership.OURS: child(REFERENCE),
    Ownership.TERMINATING: child(REFERENCE, deletionTimestamp="2026-03-01T11:59:00Z"),
    Ownership.ORPHAN: child(),
    Ownership.SUFFICIENT: child(is_like_ours=False),
    Ownership.NAME_CLASH: child(OTHER),
}
NOTE = (
    "Service demo exists and is controlled by Thing theirs: LeaderWorkerSet demo needs this name and leaves "
    "it untouched; delete or rename one of them"
)


def owner(is_alive: bool = True) -> ChildOwner:
    return ChildOwner(
        "LeaderWorkerSet",
        "demo",
        REFERENCE,
        is_alive,
        adoption="the {kind} of the set has no owner",
        until_alive="the set to be seen alive",
    )


def plan_of(action: Any) -> Plan:
    return Plan(((action,),))


def target(ownership: Ownership) -> Reference:
    return Reference.to(STORED[ownership] or {})


def problem_of(waiting_for: str = "", problems: tuple[Problem, ...] = ()) -> Plan:
    return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=waiting_for, problems=problems)


ADOPTED = plan_of(SetOwner(target(Ownership.ORPHAN), REFERENCE, "the Service of the set has no owner"))
LEAVING = problem_of("the former Service to be gone")
CLASH = problem_of(NOTE, (Problem("NameClash", NOTE),))


def test_examples_match_their_ownership() -> None:
    for ownership, stored in STORED.items():
        if ownership != Ownership.SUFFICIENT:
            assert ownership_of(stored, REFERENCE["uid"], lambda obj: "ports" in obj, {"u-9"}) is ownership
    assert set(STORED) == set(Ownership)


@pytest.mark.parametrize("ownership", list(Ownership))
@pytest.mark.parametrize("is_alive", [True, False], ids=["owner exists", "owner not seen alive"])
def test_a_wanted_child(ownership: Ownership, is_alive: bool) -> None:
    expected = {
        Ownership.ABSENT: plan_of(CREATE),
        Ownership.OURS: Plan(),
        Ownership.TERMINATING: LEAVING,
        Ownership.ORPHAN: ADOPTED if is_alive else Plan(waiting_for="the set to be seen alive"),
        Ownership.SUFFICIENT: problem_of(),
        Ownership.NAME_CLASH: CLASH,
    }[ownership]
    of_name = Child(ownership, STORED[ownership], "the former Service")
    assert plan_child(owner(is_alive), of_name, CREATE) == expected
    if ownership in (Ownership.ABSENT, Ownership.OURS):
        assert plan_obstacle(owner(is_alive), of_name) is None, "writes of another kind may start"
    else:
        assert plan_obstacle(owner(is_alive), of_name) == expected


@pytest.mark.parametrize("ownership", list(Ownership))
def test_an_unwanted_child(ownership: Ownership) -> None:
    """Callers skip `plan_unwanted` for a child that must stay."""
    delete = plan_of(Delete(target(Ownership.OURS), "Background", why="nobody asks"))
    expected = delete if ownership == Ownership.OURS else Plan()
    assert plan_unwanted(owner(), STORED[ownership], "nobody asks") == expected


@pytest.mark.parametrize("ownership", list(Ownership))
def test_repairs_run_only_for_owned_children(ownership: Ownership) -> None:
    calls: list[tuple[Object, Object]] = []

    def repairs(stored: Object, intent: Object) -> Plan:
        calls.append((stored, intent))
        return Plan(waiting_for="its kind")

    of_name = Child(ownership, STORED[ownership], "the former Service")
    planned = plan_child(owner(), of_name, CREATE, repairs)
    is_ours = ownership == Ownership.OURS
    assert calls == ([(STORED[ownership], INTENT)] if is_ours else [])
    assert (planned.waiting_for == "its kind") is is_ours


def test_labels_are_repaired_in_the_same_write_as_the_spec() -> None:
    bare = child(REFERENCE, labels={"team": "a"})
    planned = plan_child(owner(), Child(Ownership.OURS, bare, ""), CREATE)
    patch = {"metadata": {"labels": {NAME_LABEL: "demo"}}}
    assert planned == plan_of(Merge(Reference.to(bare), patch, why=LABELS_DIFFER))
    both = plan_child(owner(), Child(Ownership.OURS, bare, ""), CREATE, lambda *_: {"a": {"spec": {"x": 1}}})
    patch |= {"spec": {"x": 1}}
    assert both == plan_of(Merge(Reference.to(bare), patch, why=f"a; {LABELS_DIFFER}"))


@pytest.mark.parametrize(
    ("patches", "why", "patch"),
    [
        pytest.param({}, "", None, id="nothing"),
        pytest.param({"a": {}, "b": {}}, "", None, id="no repairs"),
        pytest.param({"a": {"spec": {"x": 1}}, "b": {}}, "a", {"spec": {"x": 1}}, id="one of them"),
        pytest.param(
            {"a": {"spec": {"x": 1}}, "b": {"metadata": {}}},
            "a; b",
            {"spec": {"x": 1}, "metadata": {}},
            id="one write for all",
        ),
    ],
)
def test_repairs(patches: Mapping[str, Object], why: str, patch: Object | None) -> None:
    expected = Plan() if patch is None else plan_of(Merge(Reference.to(INTENT), patch, why=why))
    assert repair(INTENT, patches) == expected


HEADLESS = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "1", "b": "2"}}
GIVEN = {
    "clusterIPs": ["None"],
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "sessionAffinity": "None",
    "type": "ClusterIP",
}
"""Fields that the API server adds."""


def headless_service(**edited: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a Service as stored after an edit (None removes a field), and as created."""
    intent = {**child(REFERENCE), "spec": HEADLESS}
    spec = {field: value for field, value in {**HEADLESS, **GIVEN, **edited}.items() if value is not None}
    return {**intent, "spec": spec}, intent


def repaired(stored: Object, intent: Object) -> Plan:
    return plan_child(owner(), Child(Ownership.OURS, stored, ""), Create(intent, why=""), repair_service)


@pytest.mark.parametrize(
    ("edited", "patch"),
    [
        pytest.param({}, None, id="unchanged"),
        pytest.param(
            {"sessionAffinity": "ClientIP", "ipFamilyPolicy": "PreferDualStack"}, None, id="unmanaged fields"
        ),
        pytest.param(
            {"selector": {"a": "1", "c": "3"}}, {"selector": {"b": "2", "c": None}}, id="another selector"
        ),
        pytest.param({"selector": None}, {"selector": {"a": "1", "b": "2"}}, id="no selector"),
        pytest.param(
            {"publishNotReadyAddresses": None},
            {"publishNotReadyAddresses": True},
            id="ready pods only",
        ),
        pytest.param({"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": None}, id="ports"),
        pytest.param(
            {"type": "ExternalName", "externalName": "x", "clusterIP": None},
            {"type": "ClusterIP", "ports": None, "clusterIP": "None", "externalName": None},
            id="another name",
        ),
    ],
)
@pytest.mark.parametrize("is_trimmed", [False, True], ids=["whole", "trimmed"])
def test_an_edited_headless_service_is_repaired(
    edited: dict[str, Any], patch: dict[str, Any] | None, is_trimmed: bool
) -> None:
    stored, intent = headless_service(**edited)
    planned = repaired(trim(stored) if is_trimmed else stored, intent)
    if patch is None:
        assert planned == Plan()
        return
    ((merge,),) = planned.sequences
    assert isinstance(merge, Merge)
    assert merge.patch == {"spec": patch}
    assert merge.target.uid == "u-1"
    assert repaired({**stored, "spec": with_merged(stored["spec"], patch)}, intent) == Plan()


@pytest.mark.parametrize("is_trimmed", [False, True], ids=["whole", "trimmed"])
def test_a_service_with_a_cluster_ip_is_recreated(is_trimmed: bool) -> None:
    stored, intent = headless_service(clusterIP="10.0.0.9", ports=[{"port": 80}])
    ((delete,),) = repaired(trim(stored) if is_trimmed else stored, intent).sequences
    assert isinstance(delete, Delete)
    assert (delete.target.uid, delete.propagation) == ("u-1", "Background")


def test_merged_plans_keep_their_order_and_the_shortest_requeue() -> None:
    clash, leaving = CLASH, Plan(again_after=5.0, waiting_for="a", stuck_pods=1, standing=frozenset({"late"}))
    assert merge_plans(plan_of(CREATE), Plan(((),)), clash, leaving, ADOPTED) == Plan(
        sequences=((CREATE,), *ADOPTED.sequences),
        again_after=5.0,
        waiting_for=f"{NOTE}; a",
        stuck_pods=1,
        problems=clash.problems,
        standing=frozenset({"late"}),
    )
    assert merge_plans(Plan(), Plan()) == Plan()


def test_an_adoption_also_removes_keys_of_deployment_tools() -> None:
    """Until the adoption, a tool that ignores owned objects may act on such a label."""
    orphan = child(labels={NAME_LABEL: "demo", "kro.run/owned": "true"})
    planned = plan_obstacle(owner(), Child(Ownership.ORPHAN, orphan, "the former one"))
    assert planned is not None
    (action,) = planned.sequences[0]
    assert isinstance(action, SetOwner)
    assert action.patch == {"metadata": {"labels": {"kro.run/owned": None}}}


def test_several_repairs_of_one_object_are_one_write() -> None:
    stored = make_set()
    patches = {"a": {"spec": {"x": 1, "y": {"b": 1}}}, "b": {"spec": {"y": {"c": None}}}, "c": {}}
    (write,) = repair(stored, patches).sequences[0]
    assert isinstance(write, Merge) and write.why == "a; b"
    assert write.patch == {"spec": {"x": 1, "y": {"b": 1, "c": None}}}
