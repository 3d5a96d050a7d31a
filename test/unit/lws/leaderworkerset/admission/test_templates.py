"""Tests of templates that no pod can be created from, and of fields with unexpected effects."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.lws.leaderworkerset.admission.test_validation import make_set, make_subgroup

LEADER, WORKER = "spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"
TPU = {"resources": {"limits": {"google.com/tpu": "4"}}}
PORT_FROM = {"name": "TPU_PROCESS_PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
OWN_ID = {"name": "TPU_WORKER_ID", "value": "0"}


def pod_template(*containers: dict[str, Any], metadata: Any = None, **spec: Any) -> dict[str, Any]:
    named = [{"name": f"c{index}", **container} for index, container in enumerate(containers or ({},))]
    return {"metadata": metadata or {}, "spec": {"containers": named, **spec}}


def with_templates(leader: Any = None, worker: Any = None, **options: Any) -> dict[str, Any]:
    lws = make_set(**options)
    template = lws["spec"]["leaderWorkerTemplate"]
    template |= {"leaderTemplate": leader} if leader is not None else {}
    template |= {"workerTemplate": worker} if worker is not None else {}
    return lws


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            with_templates(pod_template(metadata={"labels": {"app": "a"}, "annotations": {"note": "x"}})),
            [],
            id="the user's own labels and annotations",
        ),
        pytest.param(with_templates(pod_template(restartPolicy="Always")), [], id="restart always"),
        pytest.param(
            with_templates(pod_template(restartPolicy="Never")),
            [
                f'{LEADER}.spec.restartPolicy: Invalid value: "Never": must be Always, because StatefulSets '
                "support nothing else; set what a restart does to the group in "
                "leaderWorkerTemplate.restartPolicy"
            ],
            id="restart never",
        ),
        pytest.param(
            with_templates(worker=pod_template(activeDeadlineSeconds=60)),
            [
                f"{WORKER}.spec.activeDeadlineSeconds: Invalid value: 60: StatefulSets do not support it: "
                f"remove it"
            ],
            id="a deadline",
        ),
    ],
)
def test_templates(raw: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in errors_in(raw)] == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(with_templates(worker={"metadata": {}}), f"{WORKER}.spec: Required value", id="worker"),
        pytest.param(with_templates(worker={"spec": None}), f"{WORKER}.spec: Required value", id="null"),
        pytest.param(
            with_templates({}, pod_template()), f"{LEADER}.spec: Required value", id="leader beside workers"
        ),
        pytest.param(
            with_templates(worker={"spec": {"containers": []}}),
            f"{WORKER}.spec.containers: Required value",
            id="no containers",
        ),
    ],
)
def test_a_template_without_a_pod_spec_is_refused_with_its_path(raw: dict[str, Any], expected: str) -> None:
    (error,) = errors_in(raw)
    assert str(error).startswith(f"{expected}: ")


def test_an_unused_template_may_be_empty() -> None:
    """Upstream runs such a set: groups of one pod with a template for leaders."""
    alone = with_templates(pod_template(), {}, size=1)
    assert errors_in(alone) == []
    (error,) = errors_in(with_templates(pod_template(), {}, size=2), alone)
    assert str(error).startswith(f"{WORKER}.spec: Required value: ")


EXCLUDED = make_subgroup(2, "LeaderExcluded")
EXCLUDED_PATH = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(with_templates(worker=pod_template(TPU)), [], id="one template"),
        pytest.param(
            with_templates(worker=pod_template(TPU), size=10_000), [], id="maximum number of TPU hosts"
        ),
        pytest.param(
            with_templates(worker=pod_template(TPU), size=10_001),
            ["spec.leaderWorkerTemplate.size: Invalid value: 10001: groups whose pods request google"],
            id="too many TPU hosts",
        ),
        pytest.param(with_templates(worker=pod_template(), size=10_001), [], id="as many pods without TPUs"),
        pytest.param(with_templates(pod_template(), pod_template(TPU)), [], id="workers only"),
        pytest.param(with_templates(pod_template(TPU), pod_template()), [], id="leaders only"),
        pytest.param(with_templates(pod_template(TPU, TPU), pod_template(TPU, TPU)), [], id="two and two"),
        pytest.param(with_templates(pod_template(TPU, TPU), pod_template(TPU), size=1), [], id="no workers"),
        pytest.param(
            with_templates(pod_template({**TPU, "env": [OWN_ID]}, TPU), pod_template(TPU)),
            [],
            id="configured by the user",
        ),
        pytest.param(
            with_templates(worker=pod_template({**TPU, "env": [PORT_FROM]})), [], id="one port known inside"
        ),
        pytest.param(
            with_templates(
                pod_template(), pod_template(TPU), size=5, subgroup=make_subgroup(2, "LeaderExcluded")
            ),
            [],
            id="leader excluded, without TPUs",
        ),
        pytest.param(
            with_templates(
                pod_template(TPU), pod_template(TPU), size=5, subgroup=make_subgroup(2, "LeaderExcluded")
            ),
            [f'{EXCLUDED_PATH}: Invalid value: "LeaderExcluded": leaders request google.com/tpu'],
            id="leader excluded, with TPUs",
        ),
        pytest.param(
            with_templates(worker=pod_template(TPU), size=5, subgroup=make_subgroup(2, "LeaderExcluded")),
            [f'{EXCLUDED_PATH}: Invalid value: "LeaderExcluded": leaders request google.com/tpu'],
            id="leader excluded, with the template of workers",
        ),
    ],
)
def test_tpus(raw: dict[str, Any], expected: list[str]) -> None:
    errors = [str(error) for error in errors_in(raw)]
    assert len(errors) == len(expected)
    for message, beginning in zip(errors, expected, strict=True):
        assert message.startswith(beginning)


PORT_9000 = {**TPU, "env": [{"name": "TPU_PROCESS_PORT", "value": "9000"}]}
UNKNOWN_PORT = {**TPU, "env": [PORT_FROM]}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            with_templates(pod_template(TPU, TPU), pod_template(TPU)),
            [f"{WORKER}.spec.containers: TPU containers of workers use the ports 8476, those of"],
            id="two and one",
        ),
        pytest.param(
            with_templates(pod_template(TPU), pod_template(PORT_9000)),
            [f"{WORKER}.spec.containers: TPU containers of workers use the ports 9000, those of"],
            id="other ports",
        ),
        pytest.param(
            with_templates(worker=pod_template(UNKNOWN_PORT, TPU)),
            [f"{WORKER}.spec.containers: TPU_PROCESS_PORT of c0 is empty, or unknown when a pod is created"],
            id="several ports, one known inside",
        ),
        pytest.param(with_templates(pod_template(TPU, TPU), pod_template(TPU), size=1), [], id="no workers"),
        pytest.param(with_templates(worker=pod_template(UNKNOWN_PORT)), [], id="one port known inside"),
        pytest.param(with_templates(pod_template(), pod_template(TPU)), [], id="workers only"),
    ],
)
def test_different_tpu_counts_are_accepted_with_a_warning(raw: dict[str, Any], expected: list[str]) -> None:
    """Upstream does the same: each pod derives the TPUs of the others from its own containers."""
    assert errors_in(raw) == []
    warnings = warnings_in(raw)
    assert len(warnings) == len(expected)
    for message, beginning in zip(warnings, expected, strict=True):
        assert message.startswith(beginning)


def test_an_unused_template_is_not_validated() -> None:
    """Groups of one pod with a template for leaders do not use the worker template. Larger groups do."""
    alone = with_templates(pod_template(), pod_template(restartPolicy="Never"), size=1)
    grown = with_templates(pod_template(), pod_template(restartPolicy="Never"), size=2)
    assert errors_in(alone) == []
    assert [error.path for error in errors_in(grown, alone)] == [f"{WORKER}.spec.restartPolicy"]
    shared = with_templates(worker=pod_template(restartPolicy="Never"), size=1)
    assert [error.path for error in errors_in(shared)] == [f"{WORKER}.spec.restartPolicy"]


HOST = "spec.leaderWorkerTemplate.{}.spec.hostname"


@pytest.mark.parametrize(
    ("raw", "refused"),
    [
        pytest.param(
            with_templates(pod_template(hostname="a"), pod_template()), "leaderTemplate", id="of leaders"
        ),
        pytest.param(with_templates(worker=pod_template(hostname="a")), "workerTemplate", id="of all pods"),
        pytest.param(with_templates(pod_template(), pod_template(hostname="a")), "", id="of workers"),
        pytest.param(with_templates(worker=pod_template(hostname="a"), size=1), "", id="no workers"),
        pytest.param(with_templates(worker=pod_template(hostname="")), "", id="empty"),
    ],
)
def test_hash_leaders_cannot_share_a_host_name(raw: dict[str, Any], refused: str) -> None:
    assert errors_in(raw) == []
    hashed = {**raw, "spec": {**raw["spec"], "groupIdentity": "Hash"}}
    why = "all groups would have one host name, and only one could have workers: remove it"
    expected = [f'{HOST.format(refused)}: Invalid value: "a": {why}'] if refused else []
    assert [str(error) for error in errors_in(hashed)] == expected
    assert errors_in({**hashed, "spec": {**hashed["spec"], "replicas": 3}}, hashed) == []


def test_stored_errors_do_not_block_updates() -> None:
    bad = {"metadata": {"labels": {GROUP_INDEX_LABEL: "0"}}}
    before = with_templates(worker={**pod_template(), **bad})
    after = with_templates(worker={**pod_template(), **bad}, replicas=9)
    assert errors_in(after, before) == []
    worse = with_templates(pod_template(restartPolicy="Never"), {**pod_template(), **bad})
    assert [error.path for error in errors_in(worse, before)] == [f"{LEADER}.spec.restartPolicy"]


OWN_SIZE = {"name": "LWS_GROUP_SIZE", "value": "9"}


def test_an_overwritten_variable_causes_one_warning() -> None:
    """Upstream's controller accepts it, and its webhook overrides it: so it is no error."""
    raw = with_templates(worker=pod_template({}, {"env": [{"name": "A"}, OWN_SIZE]}))
    assert errors_in(raw) == []
    assert warnings_in(raw) == [
        f"{WORKER}.spec.containers[1].env: LWS_GROUP_SIZE is set by the controller, which overwrites "
        "this value: remove it, or choose another name"
    ]
    again = with_templates(worker=pod_template({}, {"env": [{"name": "A"}, OWN_SIZE]}), replicas=9)
    assert warnings_in(again, raw) == []
    sidecar = with_templates(worker=pod_template(initContainers=[{"name": "i", "env": [OWN_SIZE]}]))
    assert warnings_in(sidecar)[0].startswith(f"{WORKER}.spec.initContainers[0].env: LWS_GROUP_SIZE")


# Placement

EXCLUSIVE = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
BOTH = {**EXCLUSIVE, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}


@pytest.mark.parametrize(
    ("raw", "refused"),
    [
        pytest.param(make_set(annotations=BOTH, subgroup=make_subgroup(2)), True, id="two in one rack"),
        pytest.param(make_set(annotations=BOTH, subgroup=make_subgroup(4)), False, id="one subgroup"),
        pytest.param(
            make_set(annotations=BOTH, size=3, subgroup=make_subgroup(2, "LeaderExcluded")),
            False,
            id="one subgroup beside the leader",
        ),
        pytest.param(
            make_set(
                annotations={**EXCLUSIVE, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host"},
                subgroup=make_subgroup(2),
            ),
            False,
            id="a smaller topology",
        ),
    ],
)
def test_subgroups_cannot_be_exclusive_in_one_domain(raw: dict[str, Any], refused: bool) -> None:
    path = f"metadata.annotations.{SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION}"
    assert [error.path for error in errors_in(raw)] == ([path] if refused else [])


def terms(topology: str) -> dict[str, Any]:
    kind = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": topology}]}
    return {"podAffinity": kind, "podAntiAffinity": kind}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(make_set(annotations=EXCLUSIVE), [], id="exclusive"),
        pytest.param(
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}),
            ['exclusive-topology: "" is empty and has no effect'],
            id="empty",
        ),
        pytest.param(
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "a zone"}),
            ['exclusive-topology: "a zone" is a label that no node can have'],
            id="no label",
        ),
        pytest.param(
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "Example/zone"}),
            ["is a label that no node can have, so no pod will be scheduled: prefix part"],
            id="no prefix",
        ),
        pytest.param(
            make_set(annotations=EXCLUSIVE, max_surge=1),
            ["maxSurge: 1 with leaderworkerset.sigs.k8s.io/exclusive-topology: each surge group"],
            id="surge",
        ),
        pytest.param(make_set(max_surge=1), [], id="surge anywhere"),
        pytest.param(
            with_templates(pod_template(affinity=terms("rack")), annotations=EXCLUSIVE),
            [f"has no effect on pods of {LEADER}"],
            id="the user's own terms",
        ),
        pytest.param(
            with_templates(pod_template(), pod_template(affinity=terms("rack")), annotations=EXCLUSIVE),
            [],
            id="terms of workers",
        ),
        pytest.param(
            with_templates(worker=pod_template(affinity=terms("rack")), annotations=EXCLUSIVE),
            [f"has no effect on pods of {WORKER}"],
            id="terms of the template that leaders share",
        ),
    ],
)
def test_warnings_about_placement(raw: dict[str, Any], expected: list[str]) -> None:
    assert errors_in(raw) == []
    warnings = warnings_in(raw)
    assert len(warnings) == len(expected)
    for message, part in zip(warnings, expected, strict=True):
        assert part in message
    changed = {**raw, "spec": {**raw["spec"], "replicas": 9}}
    assert warnings_in(changed, raw) == []
