"""Tests of spec.scheduling with the Kubernetes scheduler: names, objects, and the passes that create them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.conditions import Rejection, find
from lws.kube.names import dns1123_subdomain_errors, safe_encoded
from lws.leaderworkerset.children.workload import CREATED
from lws.leaderworkerset.group.gangs import PROVIDERS, Marks, workload_marks
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.revisions.reading import parse
from lws.leaderworkerset.scheduling import (
    Scheduled,
    build_pod_group,
    build_workload,
    count_patch,
    dropped_fields,
    has_drifted,
    parts_of,
    pod_group_of_set,
    pod_groups_of_group,
    template_annotations,
    workload_name,
)
from lws.leaderworkerset.snapshot import FormerGang, SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.runtime.actions import Create, Delete, Merge, Plan, Reference, SetOwner
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCHEDULING_LEVEL_ANNOTATION,
    SCHEDULING_LEVEL_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    WORKLOAD_NAME_ANNOTATION,
)
from test.unit import api_server
from test.unit.builders import (
    KEY,
    NOW,
    build_revision,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)
from test.unit.set_world import actions_of, settled

Object = dict[str, Any]

WHOLE: Object = {"schedulingPolicy": {"gang": {}}}
GROUPS: Object = {}
ROLES: Object = {"replica": {"leader": {}, "worker": {"schedulingPolicy": {"gang": {}}}}}
GATED = {"schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}]}
OTHERS = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}


def a_set(scheduling: Object, **fields: Any) -> Object:
    return make_set(**{"size": 3, "scheduling": scheduling, **fields})


def stored_workload(lws: Object) -> Object:
    return api_server.stored(build_workload(SetSpec.of(lws)))


# --- Names and objects


@pytest.mark.parametrize(("uid", "hashed"), [("", "2588953383"), ("a", "845578034")])
def test_the_name_of_the_workload_has_the_hash_of_the_uid(uid: str, hashed: str) -> None:
    """The hash is FNV-1a with 32 bits of what k8s.io/utils/dump.ForHash prints: (types.UID)a."""
    lws = make_set("demo")
    lws["metadata"]["uid"] = uid
    assert workload_name(lws) == f"demo-{safe_encoded(hashed)}"


def test_a_recreated_set_keeps_the_workload_of_the_leaders_that_it_adopts() -> None:
    """Another name in their template would restart all pods."""
    former, lws = a_set(GROUPS), a_set(GROUPS)
    lws["metadata"]["uid"] = "uid-of-the-next-set"
    leaders = make_leader_statefulset(former)
    assert workload_name(lws, leaders) == workload_name(lws) != workload_name(former), "not adopted"
    leaders, workload = orphaned(leaders), orphaned(stored_workload(former))
    planned = plan(replace(at_start(lws, workload=workload), leaders=leaders))
    adopted = [action.target for action in actions_of(planned) if isinstance(action, SetOwner)]
    assert adopted == [Reference.to(workload)], "before the leaders"
    assert "Workload" not in kinds_of(planned)
    update = RollingUpdate(0, 2, 1)
    templates = [
        build_leader_statefulset(SetSpec.of(former), KEY, update)["spec"]["template"],
        build_leader_statefulset(SetSpec.of(lws), KEY, update, leaders)["spec"]["template"],
    ]
    assert templates[0] == templates[1]


@pytest.mark.parametrize("edited", ["", "other", "demo-", "demo-Invalid", "demo-bcdfghjklmn", "x-demo-bcd"])
def test_an_edited_name_of_a_workload_is_undone(edited: str) -> None:
    lws = a_set(GROUPS)
    leaders = make_leader_statefulset(lws)
    leaders["spec"]["template"]["metadata"]["annotations"][WORKLOAD_NAME_ANNOTATION] = edited
    assert workload_name(lws, leaders) == workload_name(lws)


@pytest.mark.parametrize(
    ("scheduling", "templates"),
    [
        pytest.param(
            {"disruptionMode": {"all": {}}},
            [
                {
                    "name": "lws",
                    "schedulingPolicy": {"basic": {}},
                    "disruptionMode": {"all": {}},
                }
            ],
            id="the set",
        ),
        pytest.param(WHOLE, [{"name": "lws", "schedulingPolicy": {"gang": {"minCount": 6}}}], id="one gang"),
        pytest.param(
            GROUPS,
            [{"name": "replica", "schedulingPolicy": {"gang": {"minCount": 3}}}],
            id="groups are gangs",
        ),
        pytest.param(
            {"replica": {}},
            [{"name": "replica", "schedulingPolicy": {"gang": {"minCount": 3}}}],
            id="groups without a policy",
        ),
        pytest.param(
            {"replica": {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": []}}},
            [
                {
                    "name": "replica",
                    "schedulingPolicy": {"basic": {}},
                    "schedulingConstraints": {"topology": []},
                }
            ],
            id="groups, one by one",
        ),
        pytest.param(
            ROLES,
            [
                {"name": "leader", "schedulingPolicy": {"basic": {}}},
                {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}},
            ],
            id="roles",
        ),
    ],
)
def test_the_workload(scheduling: Object, templates: list[Object]) -> None:
    lws = a_set(scheduling)
    workload = build_workload(SetSpec.of(lws))
    assert workload["spec"] == {
        "controllerRef": {
            "apiGroup": "leaderworkerset.x-k8s.io",
            "kind": "LeaderWorkerSet",
            "name": "demo",
        },
        "podGroupTemplates": templates,
    }
    assert workload["metadata"]["labels"] == {NAME_LABEL: "demo"}
    (owner,) = workload["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (lws["metadata"]["uid"], True)


def test_a_set_without_groups_is_a_gang_of_one_with_the_priority_of_its_pods() -> None:
    lws = a_set(WHOLE, replicas=0)
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["priorityClassName"] = "high"
    (template,) = build_workload(SetSpec.of(lws))["spec"]["podGroupTemplates"]
    assert template["schedulingPolicy"] == {"gang": {"minCount": 1}}
    assert template["priorityClassName"] == "high"


def test_the_pod_group_of_workers_field_by_field() -> None:
    lws = a_set(ROLES)
    workload, leader = stored_workload(lws), leader_of(lws)
    _, part = parts_of(SetSpec.of(lws))
    name = pod_groups_of_group(lws, leader)["worker"]
    pod_group = build_pod_group(SetSpec.of(lws), part, name, workload, leader)
    assert pod_group["metadata"]["labels"] == {
        NAME_LABEL: "demo",
        SCHEDULING_LEVEL_LABEL: "role",
        GROUP_INDEX_LABEL: "1",
        REVISION_LABEL: KEY,
        ROLE_LABEL: "worker",
    }
    assert pod_group["spec"] == {
        "workloadRef": {"workloadName": workload_name(lws), "templateName": "worker"},
        "schedulingPolicy": {"gang": {"minCount": 2}},
    }
    of_set, of_workload = pod_group["metadata"]["ownerReferences"]
    assert (of_set["uid"], of_set["controller"]) == (lws["metadata"]["uid"], True)
    assert (of_workload["uid"], "controller" in of_workload) == (workload["metadata"]["uid"], False)


# --- Pods


def labels_of_pod(worker: str = "0", index: str = "1") -> dict[str, str]:
    return {
        NAME_LABEL: "demo",
        GROUP_INDEX_LABEL: index,
        REVISION_LABEL: "key",
        WORKER_INDEX_LABEL: worker,
    }


@pytest.mark.parametrize(
    ("level", "workload", "worker", "marks"),
    [
        pytest.param("lws", "w-1", "0", Marks(scheduling_group="w-1-lws"), id="the set"),
        pytest.param(
            "replica",
            "w-1",
            "0",
            Marks(
                annotations={WORKLOAD_NAME_ANNOTATION: "w-1.0a1b2"},
                scheduling_group="w-1.0a1b2-1-key",
                gate=GROUP_REPLACEMENT_GATE,
            ),
            id="a group",
        ),
        pytest.param(
            "true",
            "w-1.abcde",
            "0",
            Marks(
                annotations={WORKLOAD_NAME_ANNOTATION: "w-1.abcde"},
                scheduling_group="w-1.abcde-1-key",
                gate=GROUP_REPLACEMENT_GATE,
            ),
            id="called again",
        ),
        pytest.param(
            "role",
            "w-1",
            "0",
            Marks(
                annotations={WORKLOAD_NAME_ANNOTATION: "w-1.0a1b2"},
                scheduling_group="w-1.0a1b2-1-leader-key",
                gate=GROUP_REPLACEMENT_GATE,
            ),
            id="a leader",
        ),
        pytest.param("role", "w-1.abcde", "2", Marks(), id="workers have it from their template"),
    ],
)
def test_marks(level: str, workload: str, worker: str, marks: Marks) -> None:
    annotations = {SCHEDULING_LEVEL_ANNOTATION: level, WORKLOAD_NAME_ANNOTATION: workload}
    assert workload_marks(labels_of_pod(worker), annotations, "0a1b2c3d") == marks


@pytest.mark.parametrize(
    "annotations",
    [{}, {WORKLOAD_NAME_ANNOTATION: "w"}, {SCHEDULING_LEVEL_ANNOTATION: "replica"}],
)
def test_other_pods_have_no_marks(annotations: dict[str, str]) -> None:
    assert workload_marks(labels_of_pod(), annotations, "0a1b2c3d") is None


def test_the_longest_names_are_valid() -> None:
    lws = a_set(ROLES, name="a" * 63)
    labels = {**labels_of_pod(index="f" * 40), REVISION_LABEL: "9" * 10}
    marks = workload_marks(labels, template_annotations(lws), "0a1b2c3d")
    assert marks is not None and dns1123_subdomain_errors(marks.scheduling_group) == []


# --- Drift


def changed_template(obj: Object, **fields: Any) -> Object:
    workload = copy.deepcopy(obj)
    template = workload["spec"]["podGroupTemplates"][0]
    template |= fields
    return {**workload, "spec": {**workload["spec"], "podGroupTemplates": [clean(template)]}}


def clean(template: Object) -> Object:
    return {key: value for key, value in template.items() if value != "gone"}


@pytest.mark.parametrize(
    ("stored", "drifted", "dropped", "patched"),
    [
        pytest.param({}, False, [], False, id="as intended"),
        pytest.param(
            {"priority": 0, "preemptionPolicy": "Never"}, False, [], False, id="fields of other clients"
        ),
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 9}}}, False, [], True, id="another number"),
        pytest.param({"schedulingPolicy": {"basic": {}}}, True, [], True, id="another policy"),
        pytest.param({"disruptionMode": {"single": {}}}, True, [], False, id="another mode"),
        pytest.param(
            {"schedulingPolicy": {"gang": {"minCount": 3, "later": "default"}}},
            False,
            [],
            False,
            id="default in a gang",
        ),
        pytest.param({"disruptionMode": {"all": {"later": 30}}}, False, [], False, id="default in a mode"),
        pytest.param({"disruptionMode": "gone"}, False, ["disruptionMode"], False, id="dropped"),
        pytest.param({"disruptionMode": None}, False, ["disruptionMode"], False, id="dropped, with null"),
    ],
)
def test_drift(stored: Object, drifted: bool, dropped: list[str], patched: bool) -> None:
    lws = a_set({"replica": {"disruptionMode": {"all": {}}}})
    intent = build_workload(SetSpec.of(lws))
    observed = changed_template(stored_workload(lws), **stored)
    assert (has_drifted(observed, intent), dropped_fields(observed, intent)) == (drifted, dropped)
    patch = count_patch(observed, intent)
    assert bool(patch) is patched
    if patched:
        (template,) = patch["spec"]["podGroupTemplates"]
        assert template["schedulingPolicy"] == {"gang": {"minCount": 3}}


@pytest.mark.parametrize(
    ("desired", "stored", "drifted"),
    [
        # As Kubernetes 1.37 stores them.
        ({"topology": [{"key": "rack"}]}, {"topology": [{"key": "rack"}]}, False),
        ({"topology": []}, {}, False),
        ({"topology": [{"key": "rack"}]}, {"topology": [{"key": "rack", "mode": "Required"}]}, False),
        ({"topology": [{"key": "rack"}]}, {"topology": [{"key": "zone"}]}, True),
        ({"topology": [{"key": "rack"}]}, {}, True),
        ({"topology": [{"key": "rack"}]}, {"topology": [{"key": "rack"}, {"key": "zone"}]}, True),
    ],
)
@pytest.mark.parametrize("kind", ["Workload", "PodGroup"])
def test_values_that_the_api_server_adds_or_drops_are_no_drift(
    desired: Object, stored: Object, drifted: bool, kind: str
) -> None:
    spec = SetSpec.of(a_set({"schedulingPolicy": {"gang": {}}, "schedulingConstraints": desired}))
    workload = stored_workload(dict(spec.lws))
    if kind == "Workload":
        observed = changed_template(workload, schedulingConstraints=stored)
        assert has_drifted(observed, build_workload(spec)) is drifted
        return
    (part,) = parts_of(spec)
    intent = build_pod_group(spec, part, "demo", workload)
    defaults = {"disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}
    observed = {**intent, "spec": {**intent["spec"], **defaults, "schedulingConstraints": stored}}
    assert has_drifted(observed, intent) is drifted


# --- The pass over the set


def at_start(lws: Object, **facts: Any) -> SetSnapshot:
    scheduled = Scheduled(is_served=True, **facts)
    return SetSnapshot(lws, NOW, scheduled=scheduled, set_read_live=lws)


def running(lws: Object, **facts: Any) -> SetSnapshot:
    """Return a settled set with groups."""
    plain = {**lws, "spec": {key: value for key, value in lws["spec"].items() if key != "scheduling"}}
    snapshot = settled(plain)
    spec = {**snapshot.lws["spec"], "scheduling": lws["spec"]["scheduling"]}
    return replace(snapshot, lws={**snapshot.lws, "spec": spec}, **facts)


def kinds_of(planned: Plan) -> list[str]:
    return [action.intent["kind"] for action in actions_of(planned) if isinstance(action, Create)]


def has_leaders(planned: Plan) -> bool:
    return any(getattr(action, "intent", {}).get("kind") == "StatefulSet" for action in actions_of(planned))


def created_condition(planned: Plan) -> tuple[str, str]:
    (status,) = planned.statuses
    condition = find(status.patch.get("conditions"), CREATED)
    return (condition["status"], condition["reason"]) if condition is not None else ("", "")


def test_the_workload_comes_before_any_pod() -> None:
    lws = a_set(GROUPS)
    planned = plan(at_start(lws))
    assert "Workload" in kinds_of(planned) and not has_leaders(planned)
    planned = plan(at_start(lws, workload=stored_workload(lws)))
    assert has_leaders(planned)
    assert created_condition(planned) == ("True", "SchedulingPrerequisitesCreated")
    (status,) = planned.statuses
    condition = find(status.patch["conditions"], CREATED)
    assert condition is not None and condition["message"] == "scheduling prerequisites created"


def test_volcano_needs_no_object_before_the_pods() -> None:
    """The passes over groups create its PodGroups. Upstream reports the condition for it, too."""
    without_workloads = replace(at_start(a_set(GROUPS)), scheduled=None)
    planned = plan(without_workloads)
    assert has_leaders(planned)
    assert created_condition(planned) == ("True", "SchedulingPrerequisitesCreated")
    rejected = Rejection("cannot create PodGroup demo-0", "exceeded quota", kind="PodGroup")
    planned = plan(replace(without_workloads, rejections=(rejected,)))
    assert created_condition(planned) == ("False", "PodGroupCreateFailed")
    planned = plan(replace(at_start(make_set(size=3)), scheduled=None))
    assert created_condition(planned) == ("", ""), "without the field"


def test_the_pod_group_of_a_whole_set_comes_before_any_pod() -> None:
    lws = a_set(WHOLE)
    workload = stored_workload(lws)
    planned = plan(at_start(lws, workload=workload))
    assert "PodGroup" in kinds_of(planned) and not has_leaders(planned)
    planned = plan(at_start(lws, workload=workload, pod_groups=(pod_group_of(lws),)))
    assert has_leaders(planned)
    assert created_condition(planned)[0] == "True"


def pod_group_of(lws: Object, **metadata: Any) -> Object:
    (part,) = parts_of(SetSpec.of(lws))
    name = pod_group_of_set(workload_name(lws))
    pod_group = build_pod_group(SetSpec.of(lws), part, name, stored_workload(lws))
    return api_server.stored(pod_group, **metadata)


def orphaned(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": []}}


def foreign(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [OTHERS]}}


TERMINATING = {"deletionTimestamp": "2026-03-01T11:59:00Z"}
GROUPS_SET, WHOLE_SET = a_set(GROUPS), a_set(WHOLE)


@pytest.mark.parametrize(
    ("snapshot", "reason", "message"),
    [
        pytest.param(
            replace(at_start(GROUPS_SET), scheduled=Scheduled(is_missing=True)),
            "APINotAvailable",
            "scheduling.k8s.io/v1beta1 Workload API is not available: ",
            id="no API",
        ),
        pytest.param(
            replace(
                at_start(GROUPS_SET, workload=foreign(stored_workload(GROUPS_SET))),
                owners_alive=frozenset({"u-9"}),
            ),
            "WorkloadCreateFailed",
            "exists and is controlled by Thing theirs",
            id="a foreign Workload",
        ),
        pytest.param(
            at_start(
                GROUPS_SET,
                workload=changed_template(stored_workload(GROUPS_SET), schedulingPolicy={"basic": {}}),
            ),
            "InvalidSchedulingConfiguration",
            "has immutable scheduling configuration drift",
            id="drift",
        ),
        pytest.param(
            at_start(
                a_set({"replica": {"disruptionMode": {"all": {}}}}),
                workload=changed_template(stored_workload(GROUPS_SET)),
            ),
            "UnsupportedProviderCapability",
            "was stored without disruptionMode",
            id="dropped fields",
        ),
        pytest.param(
            at_start(
                WHOLE_SET,
                workload=stored_workload(WHOLE_SET),
                pod_groups=(pod_group_of(WHOLE_SET, **TERMINATING),),
            ),
            "PodGroupCleanupBlocked",
            "is still terminating",
            id="the former PodGroup",
        ),
        pytest.param(
            replace(
                at_start(
                    WHOLE_SET,
                    workload=stored_workload(WHOLE_SET),
                    pod_groups=(foreign(pod_group_of(WHOLE_SET)),),
                ),
                owners_alive=frozenset({"u-9"}),
            ),
            "PodGroupCreateFailed",
            "exists and is controlled by Thing theirs",
            id="a foreign PodGroup",
        ),
    ],
)
def test_missing_prerequisites_are_reported_and_no_pod_is_created(
    snapshot: SetSnapshot, reason: str, message: str
) -> None:
    planned = plan(snapshot)
    assert not has_leaders(planned)
    assert created_condition(planned) == ("False", reason)
    warnings = [event for event in planned.announce if event.reason == reason]
    assert [event.type for event in warnings] == ["Warning"] and message in warnings[0].note
    assert warnings[0].action == "Reconcile"
    assert planned.again_after is not None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Workload", ("False", "WorkloadCreateFailed")),
        ("PodGroup", ("False", "PodGroupCreateFailed")),
        ("Service", ("", "")),
    ],
)
def test_a_rejected_create_of_a_scheduling_object_is_reported(kind: str, expected: tuple[str, str]) -> None:
    refused = Rejection(f"cannot create {kind} demo", "exceeded quota", kind=kind)
    assert created_condition(plan(replace(at_start(a_set(GROUPS)), rejections=(refused,)))) == expected


def test_nothing_is_reported_while_workloads_are_being_read() -> None:
    planned = plan(replace(at_start(a_set(GROUPS)), scheduled=Scheduled()))
    assert not has_leaders(planned) and created_condition(planned) == ("", "")


def test_a_running_set_continues_without_its_workload() -> None:
    lws = a_set(GROUPS)
    lost = running(lws, scheduled=Scheduled(is_served=True))
    lost = replace(lost, set_read_live=lost.lws)
    assert kinds_of(plan(lost)) == ["Workload"]
    scaled = copy.deepcopy(dict(lost.lws))
    scaled["spec"]["replicas"] = 5
    assert has_leaders(plan(replace(lost, lws=scaled)))


def test_pod_counts_follow_the_set_and_a_rollout() -> None:
    lws = a_set(WHOLE)
    facts = Scheduled(True, False, stored_workload(lws), (pod_group_of(lws),))
    at_rest = running(lws, scheduled=facts)
    assert counts_in(plan(at_rest)) == {}
    larger = copy.deepcopy(dict(at_rest.lws))
    larger["spec"]["leaderWorkerTemplate"]["size"] = 4
    assert counts_in(plan(replace(at_rest, lws=larger))) == {"Workload": 8}
    first, second = at_rest.groups
    moved = copy.deepcopy(dict(second.leader))
    moved["metadata"]["annotations"][SIZE_ANNOTATION] = "4"
    groups = (first, replace(second, leader=moved))
    assert counts_in(plan(replace(at_rest, lws=larger, groups=groups))) == {"Workload": 8, "PodGroup": 7}


def counts_in(planned: Plan) -> dict[str, int]:
    """Return the number of pods that each kind is patched to."""
    counts = {}
    for action in actions_of(planned):
        if isinstance(action, Merge) and action.target.kind in ("Workload", "PodGroup"):
            spec = action.patch["spec"]
            (template,) = spec.get("podGroupTemplates") or (spec,)
            counts[action.target.kind] = template["schedulingPolicy"]["gang"]["minCount"]
    return counts


def test_pod_groups_without_a_leader_are_deleted() -> None:
    lws = a_set(GROUPS)
    workload, (part,) = stored_workload(lws), parts_of(SetSpec.of(lws))

    def of(name: str, **metadata: Any) -> Object:
        pod_group = build_pod_group(SetSpec.of(lws), part, name, workload, leader_of(lws))
        return api_server.stored(pod_group, **metadata)

    at_rest = running(lws)
    leader = {**at_rest.groups[0].leader, "spec": {"schedulingGroup": {"podGroupName": "kept"}}}
    groups = (replace(at_rest.groups[0], leader=leader), *at_rest.groups[1:])
    pod_groups = (of("kept"), of("unused"), of("terminating", **TERMINATING), foreign(of("theirs")))
    planned = plan(replace(at_rest, groups=groups, scheduled=Scheduled(True, False, workload, pod_groups)))
    deleted = [delete.target.name for delete in actions_of(planned) if isinstance(delete, Delete)]
    assert deleted == ["unused"]


def test_volcano_pod_groups_are_deleted_after_the_last_pod_of_their_group() -> None:
    lws = a_set(GROUPS)
    of_group, of_former = (
        api_server.stored(dict(PROVIDERS["volcano"].pod_group(lws, make_leader_pod(lws, index))))
        for index in (1, 2)
    )
    at_rest = running(lws)
    former = (FormerGang(of_group, has_pods=True), FormerGang(of_former, has_pods=False))
    planned = plan(replace(at_rest, former_gangs=former))
    assert [delete.target for delete in actions_of(planned) if isinstance(delete, Delete)] == [
        Reference.to(of_former)
    ]
    # No event reports that the last pod is gone.
    assert planned.again_after is not None
    assert plan(replace(at_rest, former_gangs=former[1:])).again_after is None


# --- The pass over a group


def leader_of(lws: Object, **spec: Any) -> Object:
    """Return a leader pod as the webhook has admitted it."""
    level = template_annotations(lws)
    leader = make_leader_pod(lws, 1)
    marks = workload_marks(leader["metadata"]["labels"], level, "0a1b2c3d")
    assert marks is not None
    leader["metadata"]["annotations"] |= {**level, **marks.annotations}
    return {**leader, "spec": {"schedulingGroup": {"podGroupName": marks.scheduling_group}, **spec}}


def group_of(lws: Object, leader: Object | None = None, **facts: Any) -> GroupSnapshot:
    revision = parse(api_server.stored(dict(build_revision(lws, record(lws), 1, key=KEY))))
    observed = Scheduled(True, False, stored_workload(lws), tuple(facts.pop("pod_groups", ())))
    leader = leader if leader is not None else leader_of(lws, **GATED)
    return GroupSnapshot(lws, leader, NOW, revision, scheduled=observed, **facts)


def summary_of(planned: Plan) -> list[str]:
    return [
        f"{type(write).__name__} {write.intent['kind'] if isinstance(write, Create) else write.target.kind}"
        for write in actions_of(planned)
        if isinstance(write, Create | Merge | Delete)
    ]


@pytest.mark.parametrize(
    ("scheduling", "created"), [(GROUPS, ["Create PodGroup"]), (ROLES, ["Create PodGroup"] * 2)]
)
def test_pod_groups_are_created_before_the_gate_is_removed(scheduling: Object, created: list[str]) -> None:
    planned = plan_group(group_of(a_set(scheduling)))
    assert summary_of(planned) == [*created, "Merge Pod", "Create StatefulSet"]
    assert len(planned.sequences) == 1, "one after the other"


def test_workers_are_created_with_the_pod_group_of_workers() -> None:
    lws = a_set(ROLES)
    leader = leader_of(lws)
    planned = plan_group(group_of(lws, leader))
    create = actions_of(planned)[-1]
    assert isinstance(create, Create) and create.intent["kind"] == "StatefulSet"
    template = create.intent["spec"]["template"]
    name = pod_groups_of_group(lws, leader)["worker"]
    assert template["spec"]["schedulingGroup"] == {"podGroupName": name}
    annotations = template["metadata"]["annotations"]
    assert (
        annotations[WORKLOAD_NAME_ANNOTATION] == leader["metadata"]["annotations"][WORKLOAD_NAME_ANNOTATION]
    )


def test_all_pods_of_a_whole_set_have_one_pod_group() -> None:
    lws = a_set(WHOLE)
    leader = leader_of(lws)
    planned = plan_group(replace(group_of(lws, leader), scheduled=None))
    (create,) = actions_of(planned)
    assert isinstance(create, Create)
    name = pod_group_of_set(workload_name(lws))
    assert leader["spec"]["schedulingGroup"] == {"podGroupName": name}
    assert create.intent["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": name}


def test_a_leader_waits_for_the_pods_of_its_former_group() -> None:
    lws = a_set(GROUPS)
    former = make_worker_pod(make_worker_statefulset(make_leader_pod(lws, 1)), 1)
    planned = plan_group(group_of(lws, former_workers=(former,)))
    assert summary_of(planned) == ["Create PodGroup"]
    (event,) = planned.announce
    assert (event.reason, event.type) == ("GroupReplacementDeferred", "Normal")
    message = "Leader pod demo-1 waits for previous group 1 pods to be removed before scheduling"
    assert event.note == message
    assert (event.regarding.kind, event.related) == ("LeaderWorkerSet", Reference.to(leader_of(lws)))


def test_a_gate_is_removed_after_its_field_is_removed() -> None:
    """The field that the gate belongs to has been removed from the set."""
    lws = make_set(size=3)
    snapshot = replace(group_of(a_set(GROUPS)), lws=lws, scheduled=None)
    assert "Merge Pod" in summary_of(plan_group(snapshot))


def test_nothing_is_created_without_the_workload() -> None:
    snapshot = replace(group_of(a_set(GROUPS)), scheduled=Scheduled(is_served=True))
    planned = plan_group(snapshot)
    assert (planned.sequences, planned.waiting_for) == ((), "the Workload of the set")


def test_a_foreign_pod_group_is_reported_for_the_pod() -> None:
    lws = a_set(GROUPS)
    (part,), leader = parts_of(SetSpec.of(lws)), leader_of(lws, **GATED)
    name = pod_groups_of_group(lws, leader)["replica"]
    pod_group = api_server.stored(build_pod_group(SetSpec.of(lws), part, name, stored_workload(lws), leader))
    planned = plan_group(
        group_of(lws, leader, pod_groups=(foreign(pod_group),), owners_alive=frozenset({"u-9"}))
    )
    assert planned.sequences == ()
    (event,) = planned.announce
    assert (event.reason, event.action, event.regarding) == (
        "UnexpectedPodGroupOwner",
        "Create",
        Reference.to(leader),
    )
    assert (
        plan_group(group_of(lws, leader, pod_groups=(pod_group,))).announce
        == (actions_of(plan_group(group_of(lws, leader, pod_groups=(pod_group,))))[0].announce[:0])
    )


def test_workers_of_a_former_leader_never_join_a_gang() -> None:
    """It was deleted without them. They name its PodGroup, for which the new leader would wait for ever."""
    lws = a_set(GROUPS)
    leader = leader_of(lws, **GATED)
    workers = make_worker_statefulset(leader)
    workers["metadata"]["ownerReferences"] = []
    done = summary_of(plan_group(group_of(lws, leader, worker_statefulset=workers)))
    assert "Delete StatefulSet" in done and "Merge Pod" not in done and "SetOwner StatefulSet" not in done


@pytest.mark.parametrize("garbage", [1, "x", [1], {"a": 1}, {"replica": 5}, {"schedulingPolicy": [1]}, True])
def test_no_stored_value_stops_a_pass(garbage: Any) -> None:
    lws = a_set(garbage)
    assert plan(at_start(lws)) is not None
    assert plan(at_start(lws, workload=stored_workload(lws))) is not None
    assert plan_group(group_of(lws, leader_of(lws))) is not None
