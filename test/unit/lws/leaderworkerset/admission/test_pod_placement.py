"""Tests of lws.leaderworkerset.admission.pod: subgroups, exclusive placement and gangs of created pods."""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from lws.kube.field_errors import Refused
from lws.leaderworkerset.admission.pod import FormerNode, admit
from lws.leaderworkerset.group.gangs import Marks
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    PLACEMENT_GATE,
    RETURNS_TO_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_KEY_LABEL,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
)
from test.unit.lws.leaderworkerset.admission.test_pod import RC_0_KEY, make_leader, make_worker

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SG_0_0_KEY = "4ae5bd831de8b89a0fa2e7ef54147fddb0950464"
IN_TWOS = {SUBGROUP_SIZE_ANNOTATION: "2", SUBGROUP_POLICY_TYPE_ANNOTATION: "LeaderWorker"}
EXCLUDED = {**IN_TWOS, SUBGROUP_POLICY_TYPE_ANNOTATION: "LeaderExcluded"}
OF_FIVE = {"leaderworkerset.sigs.k8s.io/size": "5"}


def pair(label: str, key: str, topology: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two terms that keep pods with one key together and apart from all others."""
    together = [{"key": label, "operator": "In", "values": [key]}]
    apart = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [key]}]
    return (
        {"labelSelector": {"matchExpressions": together}, "topologyKey": topology},
        {"labelSelector": {"matchExpressions": apart}, "topologyKey": topology},
    )


def affinity(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {
        "podAffinity": {REQUIRED: [together for together, _ in pairs]},
        "podAntiAffinity": {REQUIRED: [apart for _, apart in pairs]},
    }


@pytest.mark.parametrize(
    ("pod", "index"),
    [
        pytest.param(make_leader(annotations=IN_TWOS), "0", id="leader"),
        pytest.param(make_leader(annotations={**EXCLUDED, **OF_FIVE}), None, id="excluded leader"),
        pytest.param(make_worker("rc-0-1", annotations=IN_TWOS), "0", id="4 in twos: 1"),
        pytest.param(make_worker("rc-0-2", annotations=IN_TWOS), "1", id="4 in twos: 2"),
        pytest.param(make_worker("rc-0-3", annotations=IN_TWOS), "1", id="4 in twos: 3"),
        pytest.param(make_worker("rc-0-2", annotations={**IN_TWOS, **OF_FIVE}), "0", id="5 in twos: 2"),
        pytest.param(make_worker("rc-0-3", annotations={**IN_TWOS, **OF_FIVE}), "1", id="5 in twos: 3"),
        pytest.param(make_worker("rc-0-2", annotations={**EXCLUDED, **OF_FIVE}), "0", id="leader out: 2"),
        pytest.param(make_worker("rc-0-4", annotations={**EXCLUDED, **OF_FIVE}), "1", id="leader out: 4"),
        pytest.param(
            make_worker(annotations=IN_TWOS, labels={SUBGROUP_INDEX_LABEL: ""}),
            "1",
            id="empty counts as none",
        ),
        pytest.param(make_worker(annotations=IN_TWOS, labels={SUBGROUP_INDEX_LABEL: "7"}), "7", id="has one"),
        pytest.param(make_worker(), None, id="no subgroups"),
    ],
)
def test_subgroup(pod: dict[str, Any], index: str | None) -> None:
    admit(pod, "default")
    assert pod["metadata"]["labels"].get(SUBGROUP_INDEX_LABEL) == index
    assert "affinity" not in pod["spec"]
    again = copy.deepcopy(pod)
    admit(again, "default")
    assert again == pod


@pytest.mark.parametrize(
    ("size", "subgroup_size", "policy", "indices"),
    [
        pytest.param(4, 2, "LeaderWorker", ["0", "0", "1", "1"], id="even"),
        pytest.param(5, 2, "LeaderWorker", ["0", "0", "0", "1", "1"], id="the first has the leader on top"),
        pytest.param(5, 2, "LeaderExcluded", [None, "0", "0", "1", "1"], id="without the leader"),
        pytest.param(3, 1, "LeaderExcluded", [None, "1", "2"], id="no subgroup 0"),
    ],
)
def test_every_pod_of_a_group_gets_its_subgroup_index(
    size: int, subgroup_size: int, policy: str, indices: Sequence[str | None]
) -> None:
    """Groups are divided as by upstream's controller."""
    annotations = {
        SIZE_ANNOTATION: str(size),
        SUBGROUP_SIZE_ANNOTATION: str(subgroup_size),
        SUBGROUP_POLICY_TYPE_ANNOTATION: policy,
    }
    workers = (make_worker(f"rc-0-{worker}", annotations=annotations) for worker in range(1, size))
    pods = [make_leader(annotations=annotations), *workers]
    for pod, index in zip(pods, indices, strict=True):
        admit(pod, "default")
        labels = pod["metadata"]["labels"]
        key = None if index is None else hashlib.sha1(f"rc-0/{index}".encode()).hexdigest()
        assert (labels.get(SUBGROUP_INDEX_LABEL), labels.get(SUBGROUP_KEY_LABEL)) == (index, key)


def test_subgroup_key_is_derived_from_leader_and_index() -> None:
    leader = make_leader("sg-0", annotations=IN_TWOS)
    worker = make_worker("sg-0-1", annotations={**IN_TWOS, "leaderworkerset.sigs.k8s.io/leader-name": "sg-0"})
    for pod in (leader, worker):
        admit(pod, "default")
        assert pod["metadata"]["labels"][SUBGROUP_KEY_LABEL] == SG_0_0_KEY


def test_group_exclusive_placement_applies_to_the_leader_only() -> None:
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
    leader, worker = make_leader(annotations=annotations), make_worker(annotations=annotations)
    for pod in (leader, worker):
        admit(pod, "default")
    assert leader["spec"]["affinity"] == affinity(pair(GROUP_KEY_LABEL, RC_0_KEY, "rack"))
    assert "affinity" not in worker["spec"]


def test_subgroup_exclusive_placement_applies_to_all_pods() -> None:
    annotations = {**IN_TWOS, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host"}
    for pod in (make_leader(annotations=annotations), make_worker(annotations=annotations)):
        admit(pod, "default")
        key = pod["metadata"]["labels"][SUBGROUP_KEY_LABEL]
        assert pod["spec"]["affinity"] == affinity(pair(SUBGROUP_KEY_LABEL, key, "host"))
    excluded = make_leader(
        annotations={**EXCLUDED, **OF_FIVE, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host"}
    )
    admit(excluded, "default")
    assert "affinity" not in excluded["spec"]


def test_exclusive_terms_are_added_to_those_of_the_user() -> None:
    annotations = {
        **IN_TWOS,
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
        SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host",
    }
    own = {"labelSelector": {}, "topologyKey": "zone"}
    node = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    pod = make_leader(
        annotations=annotations, affinity={"nodeAffinity": node, "podAffinity": {REQUIRED: [own]}}
    )
    admit(pod, "default")
    key = pod["metadata"]["labels"][SUBGROUP_KEY_LABEL]
    expected = affinity(pair(GROUP_KEY_LABEL, RC_0_KEY, "rack"), pair(SUBGROUP_KEY_LABEL, key, "host"))
    expected["podAffinity"][REQUIRED].insert(0, own)
    assert pod["spec"]["affinity"] == {"nodeAffinity": node, **expected}
    again = copy.deepcopy(pod)
    admit(again, "default")
    assert again == pod


def test_group_topology_overrides_an_equal_subgroup_topology() -> None:
    annotations = {
        **IN_TWOS,
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
        SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
    }
    pod = make_leader(annotations=annotations)
    admit(pod, "default")
    assert pod["spec"]["affinity"] == affinity(pair(GROUP_KEY_LABEL, RC_0_KEY, "rack"))


@pytest.mark.parametrize("size", ["0", "two", "", 2], ids=str)
def test_invalid_subgroup_size_is_rejected(size: Any) -> None:
    pod = make_worker(annotations={SUBGROUP_SIZE_ANNOTATION: size})
    before = copy.deepcopy(pod)
    with pytest.raises(Refused, match=r"subgroup-size of pod rc-0-2 must be a number above 0, not "):
        admit(pod, "default")
    assert pod == before


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        ("x", 'spec.affinity must be an object, not "x"'),
        ({"podAffinity": []}, r"spec.affinity.podAffinity must be an object, not \[\]"),
        ({"podAntiAffinity": {REQUIRED: {}}}, f"spec.affinity.podAntiAffinity.{REQUIRED} must be a list"),
        (
            {"podAffinity": {REQUIRED: [None]}},
            rf"spec.affinity.podAffinity.{REQUIRED}\[0\] must be an object",
        ),
    ],
)
def test_an_affinity_of_a_wrong_shape_is_refused(affinity: Any, expected: str) -> None:
    with pytest.raises(Refused, match=expected):
        admit(make_leader(affinity=affinity), "default")


def test_pods_of_different_gangs_have_different_labels() -> None:
    reviews = itertools.count()

    def gang(labels: Any, annotations: Any, size: int) -> Marks:
        name = f"{labels[NAME_LABEL]} {labels[GROUP_KEY_LABEL][:4]} {size}"
        return Marks({"label": name}, {"group": name}, f"name-{next(reviews)}")

    for pod in (make_leader(), make_worker()):
        admit(pod, "default", gang)
        assert pod["metadata"]["annotations"]["group"] == "rc 341f 4"
        assert pod["metadata"]["labels"]["label"] == "rc 341f 4"
        assert pod["spec"]["schedulingGroup"]["podGroupName"].startswith("name-")
        again = copy.deepcopy(pod)
        admit(again, "default", gang)
        assert again == pod, "the name is given once"


@pytest.mark.parametrize("own", [{"podGroupName": "mine"}, {"podGroupName": "mine", "more": 1}])
def test_pod_group_of_the_user_is_kept(own: dict[str, Any]) -> None:
    pod = make_leader()
    pod["spec"]["schedulingGroup"] = own
    admit(pod, "default", lambda labels, annotations, size: Marks(scheduling_group="ours"))
    assert pod["spec"]["schedulingGroup"] == own


def test_pods_without_a_gang_are_unchanged() -> None:
    pod, plain = make_leader(), make_leader()
    admit(pod, "default", lambda labels, annotations, size: Marks())
    admit(plain, "default")
    assert pod == plain


def test_a_scheduling_group_of_a_wrong_shape_is_refused() -> None:
    pod = make_leader()
    pod["spec"]["schedulingGroup"] = "g"
    with pytest.raises(Refused, match=r"spec\.schedulingGroup must be an object"):
        admit(pod, "default")


OWN_NODES = {
    GROUP_NODE_SELECTOR_ANNOTATION: "pool=p-$(GROUP_INDEX)",
    GROUP_TOLERATIONS_ANNOTATION: "group=$(NAMESPACE)_$(GROUP_NAME):NoSchedule",
}
TOLERATION = {"key": "group", "operator": "Equal", "value": "default_rc-7", "effect": "NoSchedule"}


def test_leader_gets_its_node_selector_and_its_gate_is_removed() -> None:
    mine = {"key": "mine", "operator": "Exists"}
    pod = make_leader("rc-7", annotations=OWN_NODES)
    pod["spec"] |= {
        "nodeSelector": {"disk": "ssd", "pool": "any"},
        "tolerations": [mine],
        "schedulingGates": [{"name": "kueue"}, {"name": PLACEMENT_GATE}],
    }
    admit(pod, "default")
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "p-7"}
    assert pod["spec"]["tolerations"] == [mine, TOLERATION]
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue"}]
    again = copy.deepcopy(pod)
    admit(again, "default")
    assert again == pod


def test_node_selector_of_workers_is_not_changed() -> None:
    pod = make_worker(annotations=OWN_NODES)
    admit(pod, "default")
    assert not {"nodeSelector", "tolerations"} & pod["spec"].keys()


def test_leaders_without_node_pools_are_unchanged() -> None:
    pod = make_leader()
    pod["spec"] |= {"nodeSelector": {"disk": "ssd"}, "schedulingGates": [{"name": PLACEMENT_GATE}]}
    admit(pod, "default")
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert pod["spec"]["schedulingGates"] == [{"name": PLACEMENT_GATE}], "it was put there for a reason"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"nodeSelector": "x"}, "spec.nodeSelector must be an object", id="selector"),
        pytest.param({"tolerations": "x"}, "spec.tolerations must be a list", id="tolerations"),
        pytest.param({"schedulingGates": "x"}, "spec.schedulingGates must be a list", id="gates"),
    ],
)
def test_fields_of_the_wrong_type_are_rejected(fields: dict[str, Any], why: str) -> None:
    pod = make_leader(annotations=OWN_NODES)
    pod["spec"] |= fields
    before = copy.deepcopy(pod)
    with pytest.raises(Refused, match=why):
        admit(pod, "default")
    assert pod == before


def test_invalid_node_selectors_are_rejected() -> None:
    pod = make_leader(annotations={GROUP_NODE_SELECTOR_ANNOTATION: "pool"})
    with pytest.raises(Refused, match=r"nodes for pod rc-0: 'pool' must be .* fix LeaderWorkerSet rc"):
        admit(pod, "default")


@pytest.mark.parametrize("both", [True, False], ids=["beside exclusive", "alone"])
def test_shared_topology_adds_affinity_without_anti_affinity(both: bool) -> None:
    annotations = {SHARED_TOPOLOGY_ANNOTATION: "zone"} | (
        {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"} if both else {}
    )
    pod = make_leader(annotations=annotations)
    admit(pod, "default")
    together, _ = pair(GROUP_KEY_LABEL, RC_0_KEY, "zone")
    exclusive = affinity(pair(GROUP_KEY_LABEL, RC_0_KEY, "rack"))
    assert pod["spec"]["affinity"] == (exclusive if both else {"podAffinity": {REQUIRED: [together]}})
    worker = make_worker(annotations=annotations)
    admit(worker, "default")
    assert "affinity" not in worker["spec"], "workers select the place of their leader"


def test_subgroup_shared_topology_applies_to_all_pods() -> None:
    annotations = {**IN_TWOS, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION: "host"}
    for pod in (make_leader(annotations=annotations), make_worker(annotations=annotations)):
        admit(pod, "default")
        together, _ = pair(SUBGROUP_KEY_LABEL, pod["metadata"]["labels"][SUBGROUP_KEY_LABEL], "host")
        assert pod["spec"]["affinity"] == {"podAffinity": {REQUIRED: [together]}}
        again = copy.deepcopy(pod)
        admit(again, "default")
        assert again == pod


def test_scope_of_one_set_is_in_the_anti_affinity_of_leaders() -> None:
    annotations = {
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
        EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION: "LeaderWorkerSet",
    }
    pod = make_leader(annotations=annotations)
    admit(pod, "default")
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert term["labelSelector"]["matchExpressions"][-1] == {
        "key": NAME_LABEL,
        "operator": "In",
        "values": ["rc"],
    }


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
THERE = {
    "weight": 100,
    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
}


@pytest.mark.parametrize("pod", [make_leader(), make_worker()], ids=["leader", "worker"])
def test_preferred_node_return(pod: dict[str, Any]) -> None:
    mine = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}, PREFERRED: [mine]}}
    for _ in range(2):
        admit(pod, "default", former=FormerNode("node-1"))
        affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}, PREFERRED: [mine, THERE]}}
        assert pod["spec"]["affinity"] == affinity


@pytest.mark.parametrize(
    ("annotations", "returns"),
    [
        ({}, True),
        ({SHARED_TOPOLOGY_ANNOTATION: "zone"}, True),
        ({EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}, False),
        ({SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack", **IN_TWOS}, False),
    ],
)
def test_exclusive_topology_overrides_preferred_node_return(
    annotations: dict[str, str], returns: bool
) -> None:
    for pod in (make_leader(annotations=annotations), make_worker(annotations=annotations)):
        admit(pod, "default", former=FormerNode("node-1"))
        assert ("nodeAffinity" in pod["spec"].get("affinity", {})) == returns
        admitted = copy.deepcopy(pod)
        admit(pod, "default")
        assert pod == admitted, "no term is removed"


@pytest.mark.parametrize("required", [None, {}], ids=["Preferred", "Required"])
def test_a_pod_with_a_node_name_gets_no_node_return(required: dict[str, Any] | None) -> None:
    """The kubelet of the named node checks the affinity, and would fail the pod."""
    pod = make_worker()
    pod["spec"]["nodeName"] = "node-2"
    admit(pod, "default", former=FormerNode("node-1", node() if required is not None else None))
    assert "affinity" not in pod["spec"] and RETURNS_TO_ANNOTATION not in pod["metadata"]["annotations"]


def test_invalid_affinity_is_rejected() -> None:
    pod = make_worker()
    pod["spec"]["affinity"] = {"nodeAffinity": [1]}
    with pytest.raises(Refused, match="nodeAffinity"):
        admit(pod, "default", former=FormerNode("node-1"))


def node(taint: dict[str, str] | None = None, ready: str = "True", **spec: Any) -> dict[str, Any]:
    """Return node-1, which belongs to a pool."""
    labels = {"pool": "a", "gpus": "8"}
    return {
        "metadata": {"name": "node-1", "labels": labels},
        "spec": {**spec, "taints": [taint] if taint else []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


NAMED = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
IN_POOL = {"key": "pool", "operator": "In", "values": ["a", "b"]}
FAST = {"key": "disk", "operator": "Exists"}


@pytest.mark.parametrize("pod", [make_leader(), make_worker()], ids=["leader", "worker"])
@pytest.mark.parametrize(
    ("own_terms", "terms"),
    [
        pytest.param([], [{"matchFields": [NAMED]}], id="nothing"),
        pytest.param(
            [{"matchExpressions": [IN_POOL]}, {"matchExpressions": [FAST]}, {}],
            [
                {"matchExpressions": [IN_POOL], "matchFields": [NAMED]},
                {"matchExpressions": [FAST], "matchFields": [NAMED]},
                {},
            ],
            id="alternatives",
        ),
    ],
)
def test_required_node_return(
    pod: dict[str, Any], own_terms: list[dict[str, Any]], terms: list[dict[str, Any]]
) -> None:
    pod = copy.deepcopy(pod)
    if own_terms:
        pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own_terms}}}
    for _ in range(2):
        admit(pod, "default", former=FormerNode("node-1", node()))
        assert pod["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
        assert pod["metadata"]["annotations"][RETURNS_TO_ANNOTATION] == "node-1"


@pytest.mark.parametrize(
    ("former_node", "spec", "annotations"),
    [
        pytest.param(node(unschedulable=True), {}, {}, id="cordoned"),
        pytest.param(node(ready="Unknown"), {}, {}, id="lost"),
        pytest.param(node({"key": "gpu", "effect": "NoSchedule"}), {}, {}, id="tainted"),
        pytest.param(node(), {"nodeSelector": {"pool": "b"}}, {}, id="another selector"),
        pytest.param(
            node(),
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [FAST]}]}}}},
            {},
            id="another affinity",
        ),
        pytest.param(node(), {}, {GROUP_NODE_SELECTOR_ANNOTATION: "pool=pool-$(GROUP_INDEX)"}, id="a pool"),
        pytest.param(node(), {}, {SHARED_TOPOLOGY_ANNOTATION: "zone"}, id="near its group"),
    ],
)
def test_no_required_return_to_an_unsuitable_node(
    former_node: dict[str, Any], spec: dict[str, Any], annotations: dict[str, str]
) -> None:
    """The pod may still prefer the node. Only the scheduler knows whether the node takes it."""
    pod = make_leader(annotations=annotations)
    pod["spec"] |= copy.deepcopy(spec)
    admit(pod, "default", former=FormerNode("node-1", former_node))
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    assert affinity[PREFERRED] == [THERE]
    assert affinity.get(REQUIRED) == spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    assert RETURNS_TO_ANNOTATION not in pod["metadata"]["annotations"]


def test_exclusive_topology_overrides_required_node_return() -> None:
    pod = make_leader(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    admit(pod, "default", former=FormerNode("node-1", node()))
    assert "nodeAffinity" not in pod["spec"]["affinity"]
