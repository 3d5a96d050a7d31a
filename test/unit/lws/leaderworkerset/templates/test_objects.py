"""Tests of the objects of a set, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.children.services import build_service
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import (
    RollingUpdate,
    build_leader_deployment,
    build_leader_statefulset,
    decorated,
    inherited_annotations,
)
from lws_api.leaderworkerset.placement import GROUP_NODE_SELECTOR_ANNOTATION, PLACEMENT_GATE
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    NAME_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    PODS_RETRIED_AT_ANNOTATION,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_pod_template, make_set

UPDATE = RollingUpdate(partition=3, replicas=5, max_unavailable=2)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
PREFIX = "leaderworkerset.sigs.k8s.io"


def leader_template(lws: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = build_leader_statefulset(SetSpec.of(lws), "k1", UPDATE)["spec"]["template"]
    return template


def test_the_leader_statefulset_field_by_field() -> None:
    lws = make_set(replicas=4, size=3, labels={"team": "a"}, annotations={"note": "x"})
    assert build_leader_statefulset(SetSpec.of(lws), "k1", UPDATE) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "labels": {
                "team": "a",
                "leaderworkerset.sigs.k8s.io/name": "demo",
                "leaderworkerset.sigs.k8s.io/template-revision-hash": "k1",
                "leaderworkerset.sigs.k8s.io/role": "leader",
            },
            "annotations": {"note": "x", "leaderworkerset.sigs.k8s.io/replicas": "4"},
            "ownerReferences": [
                {
                    "apiVersion": "leaderworkerset.x-k8s.io/v1",
                    "kind": "LeaderWorkerSet",
                    "name": "demo",
                    "uid": "uid-of-set-demo",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "serviceName": "demo",
            "replicas": 5,
            "podManagementPolicy": "Parallel",
            "selector": {
                "matchLabels": {
                    "leaderworkerset.sigs.k8s.io/name": "demo",
                    "leaderworkerset.sigs.k8s.io/worker-index": "0",
                }
            },
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": 3, "maxUnavailable": 2},
            },
            "template": {
                "metadata": {
                    "labels": {
                        "leaderworkerset.sigs.k8s.io/name": "demo",
                        "leaderworkerset.sigs.k8s.io/worker-index": "0",
                        "leaderworkerset.sigs.k8s.io/template-revision-hash": "k1",
                    },
                    "annotations": {"leaderworkerset.sigs.k8s.io/size": "3"},
                },
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }


@pytest.mark.parametrize(
    ("template", "image"),
    [
        pytest.param({}, "app:1", id="none: leaders use the worker template"),
        pytest.param({"leaderTemplate": None}, "app:1", id="null"),
        pytest.param({"leaderTemplate": make_pod_template("leader:1")}, "leader:1", id="its own"),
    ],
)
def test_the_template_of_leaders(template: dict[str, Any], image: str) -> None:
    built = leader_template(make_set(template=template))
    assert [container["image"] for container in built["spec"]["containers"]] == [image]


SUBGROUPS = {"subGroupPolicy": {"subGroupPolicyType": "LeaderExcluded", "subGroupSize": 2}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="size alone"),
        pytest.param({"networkConfig": None}, {}, id="no network configuration"),
        pytest.param(
            {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
            {f"{PREFIX}/subdomainPolicy": "UniquePerReplica"},
            id="subdomain of its own",
        ),
        pytest.param(
            {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}},
            {f"{PREFIX}/exclusive-topology": "zone"},
            id="exclusive topology",
        ),
        pytest.param({"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}}, {}, id="empty topology"),
        pytest.param(
            {"annotations": {SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}},
            {},
            id="topology of subgroups without subgroups",
        ),
        pytest.param(
            {"annotations": {SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}, "template": SUBGROUPS},
            {
                f"{PREFIX}/subgroup-exclusive-topology": "rack",
                f"{PREFIX}/subgroup-policy-type": "LeaderExcluded",
                f"{PREFIX}/subgroup-size": "2",
            },
            id="subgroups with a topology",
        ),
        pytest.param(
            {"template": {"subGroupPolicy": {"subGroupSize": 2}}},
            {f"{PREFIX}/subgroup-size": "2"},
            id="subgroups of an older API without a type",
        ),
        pytest.param({"annotations": {"note": "x"}}, {}, id="annotations of the set are not for pods"),
    ],
)
def test_annotations_of_leader_pods(changes: dict[str, Any], expected: dict[str, str]) -> None:
    template = leader_template(make_set(size=5, **changes))
    assert template["metadata"]["annotations"] == {SIZE_ANNOTATION: "5", **expected}


@pytest.mark.parametrize("policy", ["Default", "Parallel", None])
@pytest.mark.parametrize("key", ["k1", "k2"])
def test_the_termination_policy_is_in_a_template_only_if_upstream_wrote_it(
    policy: str | None, key: str
) -> None:
    """The next revision keeps a stored value, too: otherwise pods would be outdated after a rollback."""
    spec = SetSpec.of(make_set(podTerminationPolicy=policy))
    assert POD_TERMINATION_POLICY_ANNOTATION not in str(build_leader_statefulset(spec, "k1", UPDATE))
    assert POD_TERMINATION_POLICY_ANNOTATION not in str(build_leader_deployment(spec, "k1", False))
    for build in (
        lambda stored: build_leader_statefulset(spec, key, UPDATE, stored),
        lambda stored: build_leader_deployment(spec, key, False, stored),
    ):
        stored = build(None)
        stored["spec"]["template"]["metadata"]["annotations"][POD_TERMINATION_POLICY_ANNOTATION] = "Default"
        annotations = build(stored)["spec"]["template"]["metadata"]["annotations"]
        assert annotations[POD_TERMINATION_POLICY_ANNOTATION] == "Default"


@pytest.mark.parametrize(
    ("policy", "own", "expected"),
    [
        pytest.param({}, {}, None, id="no type"),
        pytest.param({"subGroupPolicyType": "LeaderWorker"}, {}, None, id="the default"),
        pytest.param({"subGroupPolicyType": "LeaderExcluded"}, {}, "LeaderExcluded", id="another type"),
        pytest.param(
            {"subGroupPolicyType": "LeaderWorker"},
            {SUBGROUP_POLICY_TYPE_ANNOTATION: "LeaderExcluded"},
            "LeaderWorker",
            id="an annotation of the user",
        ),
    ],
)
@pytest.mark.parametrize("key", ["k1", "k2"])
def test_the_default_type_of_subgroups_is_not_added_to_a_template_without_a_type(
    policy: dict[str, str], own: dict[str, str], expected: str | None, key: str
) -> None:
    """The next revision lacks it, too: otherwise pods would be outdated after a rollback."""
    former = make_set(size=4, template={"subGroupPolicy": {"subGroupSize": 2}})
    stored = build_leader_statefulset(SetSpec.of(former), "k1", UPDATE)
    lws = make_set(size=4, template={"subGroupPolicy": {"subGroupSize": 2, **policy}})
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {"annotations": own}
    built = build_leader_statefulset(SetSpec.of(lws), key, UPDATE, stored)
    annotations = built["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION) == expected
    assert annotations[SUBGROUP_SIZE_ANNOTATION] == "2"


def test_our_labels_and_annotations_take_precedence_and_others_are_kept() -> None:
    template = make_pod_template(labels={"app": "x", NAME_LABEL: "other", WORKER_INDEX_LABEL: "7"})
    template["metadata"]["annotations"] = {"note": "pod", SIZE_ANNOTATION: "99"}
    lws = make_set(
        labels={"team": "a", NAME_LABEL: "other", REVISION_LABEL: "other"},
        annotations={"note": "set", REPLICAS_ANNOTATION: "99"},
        template={"workerTemplate": template},
    )
    statefulset = build_leader_statefulset(SetSpec.of(lws), "k1", UPDATE)
    ours = {NAME_LABEL: "demo", REVISION_LABEL: "k1", ROLE_LABEL: "leader"}
    assert statefulset["metadata"]["labels"] == {"team": "a", **ours}
    assert statefulset["metadata"]["annotations"] == {"note": "set", REPLICAS_ANNOTATION: "2"}
    pods = statefulset["spec"]["template"]["metadata"]
    ours = {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "0", REVISION_LABEL: "k1"}
    assert pods == {"labels": {"app": "x", **ours}, "annotations": {"note": "pod", SIZE_ANNOTATION: "2"}}


@pytest.mark.parametrize(
    ("key", "is_copied"),
    [
        (LAST_APPLIED, False),
        ("objectset.rio.cattle.io/hash", False),
        ("app.kubernetes.io/instance", True),
        (EXCLUSIVE_TOPOLOGY_ANNOTATION, True),
    ],
)
def test_labels_and_annotations_of_tools_are_not_copied(key: str, is_copied: bool) -> None:
    lws = make_set(labels={key: "x"}, annotations={key: "x"})
    statefulset = build_leader_statefulset(SetSpec.of(lws), "k1", UPDATE)
    assert (key in statefulset["metadata"]["labels"]) is is_copied
    assert (key in statefulset["metadata"]["annotations"]) is is_copied


def test_records_are_not_inherited_from_the_set() -> None:
    records = dict.fromkeys((PODS_RETRIED_AT_ANNOTATION, GROUP_RESTARTS_COUNTED_FOR_ANNOTATION), "x")
    lws = make_set(annotations={**records, "example.com/y": "z"})
    assert inherited_annotations(lws) == {"example.com/y": "z"}


def test_user_input_is_neither_mutated_nor_shared() -> None:
    template = make_pod_template(labels={"app": "x"})
    template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    template["spec"]["invented"] = {"kept": [1, None]}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    lws = make_set(
        labels={"team": "a"},
        annotations={"note": "x"},
        template={"workerTemplate": template, "volumeClaimTemplates": [claim]},
    )
    before = copy.deepcopy(lws)
    statefulset = build_leader_statefulset(SetSpec.of(lws), "k1", UPDATE)
    assert statefulset["spec"]["template"]["spec"] == template["spec"]

    statefulset["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].clear()
    statefulset["spec"]["template"]["spec"]["invented"]["kept"].clear()
    statefulset["spec"]["template"]["metadata"]["labels"].clear()
    statefulset["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"].clear()
    statefulset["metadata"]["labels"].clear()
    statefulset["metadata"]["annotations"].clear()
    assert lws == before


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({"spec": {}}, id="no metadata"),
        pytest.param({"metadata": None, "spec": {}}, id="null metadata"),
        pytest.param({"metadata": {"labels": None, "annotations": None}, "spec": {}}, id="null maps"),
    ],
)
def test_templates_with_little_metadata(template: dict[str, Any]) -> None:
    result = decorated(template, {"a": "1"}, {"b": "2"})
    assert result == {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}, "spec": {}}


def test_other_metadata_of_a_template_is_kept() -> None:
    result = decorated({"metadata": {"name": "x", "finalizers": ["f"]}, "spec": {}}, {}, {})
    assert result["metadata"] == {"name": "x", "finalizers": ["f"], "labels": {}, "annotations": {}}


def test_the_service() -> None:
    lws = make_set(labels={"team": "a"}, annotations={"note": "x"})
    assert build_service("demo", "demo", {"a": "1"}, lws) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "labels": {"leaderworkerset.sigs.k8s.io/name": "demo"},
            "ownerReferences": [
                {
                    "apiVersion": "leaderworkerset.x-k8s.io/v1",
                    "kind": "LeaderWorkerSet",
                    "name": "demo",
                    "uid": "uid-of-set-demo",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "1"}},
    }


def test_leaders_that_select_nodes_by_group_wait_for_the_webhook() -> None:
    annotations = {GROUP_NODE_SELECTOR_ANNOTATION: "pool=$(GROUP_INDEX)"}
    lws = make_set(annotations=annotations)
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["schedulingGates"] = [{"name": "a/b"}]
    template = build_leader_statefulset(SetSpec.of(lws), "k", RollingUpdate(0, 2, 1))["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": "a/b"}, {"name": PLACEMENT_GATE}]
    assert annotations.items() <= template["metadata"]["annotations"].items()
    without = build_leader_statefulset(SetSpec.of(make_set()), "k", RollingUpdate(0, 2, 1))["spec"][
        "template"
    ]
    assert "schedulingGates" not in without["spec"]


def test_the_role_label_is_added_with_a_new_template() -> None:
    """By itself, the label would cause a write to every set at an upgrade. Its removal would cause one at
    every takeover.
    """

    def labels(key: str, stored: Any = None) -> dict[str, str]:
        built = build_leader_statefulset(SetSpec.of(make_set()), key, RollingUpdate(0, 2, 1), stored)
        assert ROLE_LABEL not in built["spec"]["template"]["metadata"]["labels"]
        assert ROLE_LABEL not in built["spec"]["selector"]["matchLabels"]
        result: dict[str, str] = built["metadata"]["labels"]
        return result

    new = labels("key-a")
    assert new[ROLE_LABEL] == "leader"
    without = {key: value for key, value in new.items() if key != ROLE_LABEL}
    assert labels("key-a", {"metadata": {"labels": without}}) == without
    assert labels("key-a", {"metadata": {"labels": new}}) == new
    assert labels("key-b", {"metadata": {"labels": without}})[ROLE_LABEL] == "leader"
