"""Tests of lws.leaderworkerset.admission.scheduling: upstream's rules on `spec.scheduling`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.admission.scheduling import scheduling_errors
from lws.leaderworkerset.scheduling import ASSUMED, NO_SCHEDULER, UNAVAILABLE, Scheduler
from lws.leaderworkerset.spec import SetSpec
from test.unit.builders import make_set

Object = dict[str, Any]

SCHEDULING = "spec.scheduling"
ALL, GANG = {"disruptionMode": {"all": {}}}, {"schedulingPolicy": {"gang": {}}}
BASIC = {"schedulingPolicy": {"basic": {}}}
ROLES = {"replica": {"leader": ALL, "worker": ALL}}
DISRUPTION = "does not support typed disruption mode"
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
TEMPLATE, PARENT = (
    "scheduling.k8s.io/group-template-name",
    "scheduling.k8s.io/parent-compositepodgroup",
)


def a_set(scheduling: Object | None, leader: Object | None = None, **fields: Any) -> Object:
    pod = {"containers": [{"name": "main", "image": "app:1"}]}
    template = {"leaderTemplate": {"spec": {**pod, **leader}}} if leader is not None else {}
    lws = make_set(**{"size": 4, "replicas": 3, "template": template, **fields})
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"] |= fields.get("pod", {})
    return lws if scheduling is None else {**lws, "spec": {**lws["spec"], "scheduling": scheduling}}


def messages_of(new: Object, old: Object | None = None, scheduler: Scheduler = ASSUMED) -> list[str]:
    errors = scheduling_errors(new, old, SetSpec.of(new), scheduler)
    return [f"{error.path}: {error.detail}" for error in errors]


def gang(count: int) -> Object:
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


@pytest.mark.parametrize(
    "scheduling",
    [
        None,
        {},
        {"replica": {}},
        ALL,
        gang(12),
        {"schedulingConstraints": {"topology": [{"key": "rack"}]}},
        {"replica": gang(4)},
        {"replica": ALL},
        ROLES,
        {"replica": {"leader": gang(1), "worker": gang(3)}},
        {"replica": {"worker": {}}},
    ],
)
def test_accepted(scheduling: Object | None) -> None:
    assert messages_of(a_set(scheduling)) == []
    assert messages_of(a_set(scheduling), a_set(scheduling)) == []


@pytest.mark.parametrize(
    ("scheduling", "levels"),
    [
        pytest.param({**ALL, "replica": {}}, "lws replica", id="set and groups"),
        pytest.param({**ALL, **ROLES}, "lws role", id="set and roles"),
        pytest.param({"replica": {**BASIC, "leader": {}}}, "replica role", id="groups and roles"),
    ],
)
def test_one_level_only(scheduling: Object, levels: str) -> None:
    message = f"{SCHEDULING}: exactly one active scheduling level is required, got [{levels}]"
    assert messages_of(a_set(scheduling)) == [message]


@pytest.mark.parametrize(
    ("lws", "message"),
    [
        pytest.param(
            a_set({"replica": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}}),
            f"{SCHEDULING}.replica.schedulingPolicy.gang.minGroupCount: minGroupCount is not supported",
            id="count of groups",
        ),
        pytest.param(
            a_set(ROLES, size=1),
            "spec.leaderWorkerTemplate.size: leader/worker scheduling requires size >= 2",
            id="roles without workers",
        ),
        pytest.param(
            a_set(gang(4)),
            f"{SCHEDULING}.schedulingPolicy.gang.minCount: must equal complete leaf membership 12",
            id="part of the set",
        ),
        pytest.param(
            a_set(gang(4), replicas=0),
            f"{SCHEDULING}.schedulingPolicy.gang.minCount: must equal complete leaf membership 1",
            id="set of no group",
        ),
        pytest.param(
            a_set({"replica": gang(3)}),
            f"{SCHEDULING}.replica.schedulingPolicy.gang.minCount: must equal complete leaf membership 4",
            id="part of a group",
        ),
        pytest.param(
            a_set({"replica": {"leader": gang(2)}}),
            f"{SCHEDULING}.replica.leader.schedulingPolicy.gang.minCount: must equal complete leaf "
            "membership 1",
            id="minCount above the leader",
        ),
        pytest.param(
            a_set({"replica": {"worker": gang(4)}}),
            f"{SCHEDULING}.replica.worker.schedulingPolicy.gang.minCount: must equal complete leaf "
            "membership 3",
            id="minCount above the workers",
        ),
        pytest.param(
            a_set({}, startupPolicy="LeaderReady"),
            f"{SCHEDULING}: a gang containing the leader and workers is incompatible with startupPolicy "
            "LeaderReady",
            id="gangs with LeaderReady",
        ),
        pytest.param(
            a_set(gang(12), startStrategy={"seedGroups": 1}),
            "spec.startStrategy: conflicts with a gang of all pods, which waits for the groups of the last "
            "wave: remove it",
            id="waves",
        ),
        pytest.param(
            a_set({}, annotations={"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}),
            f"{SCHEDULING}: gang scheduling or workload topology constraints cannot be combined with "
            "exclusive topology in alpha",
            id="exclusive topology",
        ),
        pytest.param(
            a_set({}, leader={"priorityClassName": "high"}),
            f"{SCHEDULING}: all managed pod templates must use the same priorityClassName",
            id="priorities",
        ),
        pytest.param(
            a_set({}, leader={"schedulingGroup": {"podGroupName": "x"}}),
            f"{SCHEDULING}: managed pod templates must not set spec.schedulingGroup",
            id="PodGroups of users",
        ),
        pytest.param(
            a_set({"replica": {"worker": {"resourceClaims": [CLAIM]}}}, leader={"resourceClaims": [CLAIM]}),
            f"{SCHEDULING}.replica.worker.resourceClaims[0]: must have a matching reference in every member "
            "pod template",
            id="claims",
        ),
    ],
)
def test_rejected(lws: Object, message: str) -> None:
    assert messages_of(lws) == [message]


def test_a_gang_of_exclusive_subgroups_is_accepted() -> None:
    topology = {"leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "rack"}
    assert messages_of(a_set({}, annotations=topology)) == []


def test_fields_allowed_for_single_pods() -> None:
    topology = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    assert messages_of(a_set({"replica": BASIC}, startupPolicy="LeaderReady", annotations=topology)) == []
    claims = {"replica": {"leader": {"resourceClaims": [CLAIM]}}}
    assert messages_of(a_set(claims, leader={"resourceClaims": [CLAIM]})) == []
    assert messages_of(a_set(claims, pod={"resourceClaims": [CLAIM]})) == [], (
        "the worker template is the leader's"
    )


@pytest.mark.parametrize(
    ("before", "after", "messages"),
    [
        pytest.param({}, None, ["cannot remove scheduling after creation"], id="removed"),
        pytest.param(None, {}, ["cannot add scheduling after creation"], id="added"),
        pytest.param(
            {},
            ALL,
            ["cannot switch the active scheduling level after creation", "field is immutable"],
            id="another level",
        ),
        pytest.param({"replica": BASIC}, {"replica": GANG}, ["field is immutable"], id="another policy"),
        pytest.param(gang(12), GANG, [], id="counts of gangs may change"),
        pytest.param({}, {"replica": None}, [], id="null is absent"),
    ],
)
def test_immutable_fields(before: Object | None, after: Object | None, messages: list[str]) -> None:
    assert messages_of(a_set(after), a_set(before)) == [f"{SCHEDULING}: {message}" for message in messages]


def test_priorities_cannot_change() -> None:
    old = a_set({})
    new = copy.deepcopy(old)
    new["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["priorityClassName"] = "high"
    reason = "cannot change priorityClassName while workload-aware scheduling is configured"
    assert messages_of(new, old) == [f"spec.leaderWorkerTemplate: {reason}"]


@pytest.mark.parametrize(
    ("annotations", "scheduling", "owned", "messages"),
    [
        pytest.param({TEMPLATE: "t", PARENT: "p"}, {}, True, [], id="complete"),
        pytest.param(
            {PARENT: "p"},
            {},
            True,
            [f"{PARENT}]: requires the group-template-name delegation annotation"],
            id="no template",
        ),
        pytest.param(
            {TEMPLATE: ""}, {}, True, [f"{TEMPLATE}]: must name a parent Workload template"], id="empty"
        ),
        pytest.param(
            {TEMPLATE: "t"},
            {},
            False,
            [f"{TEMPLATE}]: delegated scheduling requires a controller owner"],
            id="no owner",
        ),
        pytest.param(
            {TEMPLATE: "t", PARENT: ""},
            {},
            True,
            [f"{PARENT}]: must name a parent CompositePodGroup"],
            id="empty parent",
        ),
        pytest.param(
            {TEMPLATE: "t"},
            ROLES,
            True,
            [f"{TEMPLATE}]: delegated scheduling supports only whole-LWS or replica mode"],
            id="roles",
        ),
    ],
)
def test_delegation(
    annotations: dict[str, str], scheduling: Object, owned: bool, messages: list[str]
) -> None:
    lws = a_set(scheduling, annotations=annotations)
    if owned:
        owner = {"kind": "Parent", "name": "p", "uid": "u", "controller": True}
        lws["metadata"]["ownerReferences"] = [owner]
    assert messages_of(lws) == [f"metadata.annotations[{message}" for message in messages]


@pytest.mark.parametrize(
    ("scheduler", "messages"),
    [
        pytest.param(NO_SCHEDULER, ["requires the WorkloadAwareScheduling feature gate"], id="gate off"),
        pytest.param(Scheduler(True), ["requires a configured scheduler provider"], id="no provider"),
        pytest.param(
            Scheduler(True, "scheduler-plugins"),
            ['supported values: "kubernetes", "volcano"'],
            id="another provider",
        ),
        pytest.param(Scheduler(True, "volcano"), [], id="volcano"),
        pytest.param(Scheduler(True, "kubernetes"), [], id="kubernetes"),
        pytest.param(
            Scheduler(True, "kubernetes", lacks_workloads=True),
            [UNAVAILABLE],
            id="no Workloads",
        ),
        pytest.param(Scheduler(True, "volcano", lacks_workloads=True), [], id="volcano without Workloads"),
    ],
)
def test_required_scheduler(scheduler: Scheduler, messages: list[str]) -> None:
    assert messages_of(a_set({}), scheduler=scheduler) == [f"{SCHEDULING}: {message}" for message in messages]
    assert messages_of(a_set(None), scheduler=scheduler) == []


@pytest.mark.parametrize(
    ("scheduling", "messages"),
    [
        pytest.param(ALL, {"": "supports the typed API only at replica level"}, id="the set"),
        pytest.param(
            {"replica": {"leader": {}}}, {"": "supports the typed API only at replica level"}, id="roles"
        ),
        pytest.param(
            {"replica": BASIC},
            {".replica.schedulingPolicy": "does not support Basic policy"},
            id="one by one",
        ),
        pytest.param(
            {"replica": {"schedulingConstraints": {}, "disruptionMode": {}}},
            {
                ".replica.schedulingConstraints": "does not support typed scheduling constraints",
                ".replica.disruptionMode": DISRUPTION,
            },
            id="constraints and disruption",
        ),
        pytest.param(
            {"replica": {"leader": {"resourceClaims": []}}},
            {"": "supports the typed API only at replica level"},
            id="claims",
        ),
        pytest.param({"replica": gang(4)}, {}, id="a gang"),
    ],
)
def test_unsupported_by_volcano(scheduling: Object, messages: dict[str, str]) -> None:
    actual = messages_of(a_set(scheduling), scheduler=Scheduler(True, "volcano"))
    assert actual == [f"{SCHEDULING}{field}: the Volcano provider {why}" for field, why in messages.items()]


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        pytest.param(a_set(None), a_set({}), "spec.scheduling: Forbidden: cannot remove", id="removed"),
        pytest.param(a_set({}), a_set(None), "spec.scheduling: Forbidden: cannot add", id="added"),
        pytest.param(
            a_set({}, startupPolicy="LeaderReady"), None, "Forbidden: a gang containing", id="LeaderReady"
        ),
        pytest.param(
            a_set({}, leader={"schedulingGroup": {"podGroupName": "x"}}),
            None,
            "Forbidden: managed pod templates",
            id="PodGroups of users",
        ),
        pytest.param(
            a_set(ROLES, size=1), None, "Invalid value: 1: leader/worker scheduling", id="roles alone"
        ),
    ],
)
def test_complaints_are_those_of_upstream(new: Object, old: Object | None, words: str) -> None:
    errors = [str(error) for error in scheduling_errors(new, old, SetSpec.of(new), ASSUMED)]
    assert len(errors) == 1 and words in errors[0]


@pytest.mark.parametrize("garbage", [1, "x", [1], {"a": 1}, True])
@pytest.mark.parametrize("field", ["resourceClaims", "schedulingConstraints", "schedulingPolicy"])
def test_values_of_any_type_cause_no_exception(field: str, garbage: Any) -> None:
    lws = a_set({"replica": {"leader": {field: garbage}}}, pod={"resourceClaims": garbage})
    assert messages_of(lws) is not None
