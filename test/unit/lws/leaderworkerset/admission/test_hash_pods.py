"""Tests of lws.leaderworkerset.admission.pod: pods of Hash groups, as later upstream releases admit them."""

from __future__ import annotations

import copy
import hashlib
from functools import partial
from typing import Any

import pytest

from lws.kube.field_errors import Refused
from lws.kube.names import dns1123_label_errors, dns1123_subdomain_errors
from lws.leaderworkerset.admission.pod import admit
from lws.leaderworkerset.admission.validation import errors_in
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws_api.leaderworkerset.placement import GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    REVISION_LABEL,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_SIZE_ANNOTATION,
)
from test.unit.lws.leaderworkerset.admission.test_pod import (
    make_environment,
    make_leader,
    make_worker,
    without,
)
from test.unit.lws.leaderworkerset.admission.test_pod_placement import affinity, pair
from test.unit.lws.leaderworkerset.admission.test_reserved import with_mark
from test.unit.lws.leaderworkerset.admission.test_validation import make_set

UNIQUE = "0123456789abcdef"
KEY = hashlib.sha1(b"default/0123456789abcdef").hexdigest()
HOST = f"rc-{KEY[:8]}"
COST = "controller.kubernetes.io/pod-deletion-cost"
GATE = {"name": "leaderworkerset.sigs.k8s.io/group-replacement"}
HASH = {GROUP_IDENTITY_ANNOTATION: "Hash"}
TPU = {"resources": {"limits": {"google.com/tpu": "4"}}}
IN_TWOS = {SUBGROUP_SIZE_ANNOTATION: "2", SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host"}


def hash_leader(*, labels: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a leader pod as the ReplicaSet controller creates it."""
    pod = make_leader(labels=labels, annotations={**HASH, **(annotations or {})}, **spec)
    pod["metadata"]["generateName"] = "rc-6d5f7c9b8-"
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "rc-6d5f7c9b8", "controller": True}]
    return without(pod, "metadata", "name")


def hash_worker(index: int, *, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a worker pod of the group, whose StatefulSet is named after the host name of the leader."""
    defaults = {
        **HASH,
        LEADER_NAME_ANNOTATION: "rc-6d5f7c9b8-x2x4z",
        LEADER_ADDRESS_ANNOTATION: f"{HOST}.rc.default",
    }
    return make_worker(
        f"{HOST}-{index}",
        labels={GROUP_INDEX_LABEL: KEY, GROUP_KEY_LABEL: KEY},
        annotations={**defaults, **(annotations or {})},
        **spec,
    )


def admitted(pod: dict[str, Any], unique: str = UNIQUE) -> dict[str, Any]:
    """Return the pod after two reviews: the API server may call the webhook again, with other random
    characters.
    """
    admit(pod, "default", unique=unique)
    again = copy.deepcopy(pod)
    admit(again, "default", unique="of the second call")
    assert again == pod
    return pod


def test_leader_gets_group_key_host_name_and_gate() -> None:
    assert admitted(hash_leader()) == hash_leader(
        labels={GROUP_INDEX_LABEL: KEY, GROUP_KEY_LABEL: KEY},
        annotations={COST: "-100"},
        hostname=HOST,
        schedulingGates=[GATE],
        containers=[{"name": "main", "env": make_environment(f"{HOST}.rc.default", "4", "0")}],
    )


def test_group_keys_of_two_leaders_differ() -> None:
    keys = {admitted(hash_leader(), unique)["metadata"]["labels"][GROUP_KEY_LABEL] for unique in ("a", "b")}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({GROUP_KEY_LABEL: "1" * 40}, id="no index"),
        pytest.param({GROUP_INDEX_LABEL: "0"}, id="an index"),
        pytest.param({GROUP_KEY_LABEL: "1" * 40, GROUP_INDEX_LABEL: "2" * 40}, id="different"),
        pytest.param({GROUP_KEY_LABEL: "mine", GROUP_INDEX_LABEL: "mine"}, id="not hexadecimal"),
    ],
)
def test_group_key_that_the_webhook_did_not_set_is_replaced(labels: dict[str, str]) -> None:
    pod = admitted(hash_leader(labels=labels))
    assert [pod["metadata"]["labels"][label] for label in (GROUP_KEY_LABEL, GROUP_INDEX_LABEL)] == [KEY, KEY]


def test_a_leader_keeps_its_host_name_gates_and_deletion_cost() -> None:
    others = [{"name": "example.com/quota"}]
    pod = admitted(hash_leader(annotations={COST: "7"}, hostname="mine", schedulingGates=others))
    assert pod["spec"]["hostname"] == "mine"
    assert pod["spec"]["schedulingGates"] == [*others, GATE]
    assert pod["metadata"]["annotations"][COST] == "7"
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "mine.rc.default"


def test_a_leader_with_its_own_subdomain() -> None:
    pod = admitted(hash_leader(annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"}))
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (HOST, HOST)
    assert pod["spec"]["containers"][0]["env"][0]["value"] == f"{HOST}.{HOST}.default"


def test_leader_address_of_a_worker_is_a_host_name() -> None:
    for more in ({}, {LEADER_ADDRESS_ANNOTATION: ""}):
        pod = admitted(hash_worker(2, annotations=more))
        assert pod["spec"]["containers"][0]["env"] == make_environment(f"{HOST}.rc.default", "4", "2")
        assert "hostname" not in pod["spec"] and "schedulingGates" not in pod["spec"]


def test_exclusive_placement_uses_the_group_key() -> None:
    pod = admitted(hash_leader(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}))
    assert pod["spec"]["affinity"] == affinity(pair(GROUP_KEY_LABEL, KEY, "zone"))


def test_subgroup_key_is_derived_from_the_group_key() -> None:
    """The key is the same for leader and workers, and independent of pod names."""
    pods = [
        hash_leader(annotations=IN_TWOS),
        *(hash_worker(index, annotations=IN_TWOS) for index in (1, 2, 3)),
    ]
    for pod, index in zip(pods, "0011", strict=True):
        labels = admitted(pod)["metadata"]["labels"]
        key = hashlib.sha1(f"{KEY}/{index}".encode()).hexdigest()
        assert (labels[SUBGROUP_INDEX_LABEL], labels[SUBGROUP_KEY_LABEL]) == (index, key)
        assert pod["spec"]["affinity"] == affinity(pair(SUBGROUP_KEY_LABEL, key, "host"))


def test_tpu_host_names_contain_the_host_name_of_the_leader() -> None:
    annotations = {LEADER_REQUESTS_TPUS_ANNOTATION: "true"}
    pods = [hash_leader(containers=[{"name": "t", **TPU}])]
    pods += [
        hash_worker(index, annotations=annotations, containers=[{"name": "t", **TPU}]) for index in (1, 2, 3)
    ]
    for worker_id, pod in enumerate(pods):
        env = admitted(pod)["spec"]["containers"][0]["env"]
        values = {entry["name"]: entry["value"] for entry in env}
        assert values["TPU_WORKER_HOSTNAMES"] == f"{HOST}.rc,{HOST}-1.rc,{HOST}-2.rc,{HOST}-3.rc"
        assert (values["TPU_NAME"], values["TPU_WORKER_ID"]) == (HOST, str(worker_id))


def test_tpu_pods_in_no_subgroup_are_refused() -> None:
    excluded = {**IN_TWOS, "leaderworkerset.sigs.k8s.io/subgroup-policy-type": "LeaderExcluded"}
    with pytest.raises(Refused, match=r"^leader pod rc-6d5f7c9b8- uses TPUs and is in no subgroup "):
        admit(hash_leader(annotations=excluded, containers=[{"name": "t", **TPU}]), "default")


@pytest.mark.parametrize("annotation", [GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION])
def test_node_selectors_by_group_index_are_rejected(annotation: str) -> None:
    pod = hash_leader(annotations={annotation: "pool=p-$(GROUP_INDEX)"})
    before = copy.deepcopy(pod)
    message = (
        f"^pod rc-6d5f7c9b8- has annotation {annotation}, which selects nodes by group index, and groups "
        "with groupIdentity Hash have no index; remove it from LeaderWorkerSet rc$"
    )
    with pytest.raises(Refused, match=message):
        admit(pod, "default", unique=UNIQUE)
    assert pod == before
    lws = make_set()
    lws["metadata"]["annotations"] = {annotation: "pool=p-$(GROUP_INDEX)"}
    lws["spec"]["groupIdentity"] = "Hash"
    path = f"metadata.annotations.{annotation}: "
    why = "selects nodes by group index, and groups with groupIdentity Hash have none: remove it"
    assert [error for error in map(str, errors_in(lws)) if error.startswith(path) and error.endswith(why)]


def test_index_of_a_statefulset_pod_comes_from_its_ordinal() -> None:
    """Such an annotation has had no effect so far, and running sets may contain it."""
    owner = {"kind": "StatefulSet", "name": "rc", "controller": True}
    pod, plain = make_leader(annotations={**HASH, **IN_TWOS}), make_leader(annotations=IN_TWOS)
    for leader in (pod, plain):
        leader["metadata"]["ownerReferences"] = [owner]
        admit(leader, "default")
    assert pod["spec"] == plain["spec"]
    assert pod["metadata"]["labels"] == plain["metadata"]["labels"]
    worker, plain_worker = make_worker(annotations={**HASH, **IN_TWOS}), make_worker(annotations=IN_TWOS)
    for worker_pod in (worker, plain_worker):
        admit(worker_pod, "default")
    assert worker["metadata"]["labels"] == plain_worker["metadata"]["labels"]


def test_group_identity_label_in_a_template_is_overwritten_with_a_warning() -> None:
    (error,) = errors_in(with_mark(GROUP_IDENTITY_ANNOTATION, "Hash", "leaders"))
    assert "it marks leaders of sets with groupIdentity Hash" in str(error)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_pod_group_name_contains_the_group_key(provider: str) -> None:
    """Leader and workers share a name that differs from the names of other groups and is never too long."""
    marks = partial(PROVIDERS[provider].marks, unique="12345678")

    def gang(labels: Any, annotations: Any, size: int) -> Any:
        return marks(labels, size)

    name = "a" * 43
    labels = {REVISION_LABEL: "5d4f8c7b96", "leaderworkerset.sigs.k8s.io/name": name}
    pod_group_names = []
    for unique in (UNIQUE, "another"):
        pod = hash_leader(labels=labels)
        admit(pod, "default", gang, unique)
        metadata, again = pod["metadata"], copy.deepcopy(pod)
        admit(again, "default", gang, "more")
        assert again == pod
        leader = {**metadata, "name": "x-z", "uid": "u"}
        pod_group_names.append(PROVIDERS[provider].name_of({**pod, "metadata": leader}))
        assert dns1123_subdomain_errors(pod_group_names[-1]) == []
        if label := metadata["labels"].get("scheduling.x-k8s.io/pod-group"):
            assert label == pod_group_names[-1] and dns1123_label_errors(label) == []
        if provider == "volcano":
            key = metadata["labels"][GROUP_KEY_LABEL]
            assert pod_group_names[-1] == f"{name}-{key}-5d4f8c7b96"
            assert metadata["annotations"]["scheduling.k8s.io/group-name"] == pod_group_names[-1]
        if provider == "kubernetes":
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": pod_group_names[-1]}
    assert len(set(pod_group_names)) == 2
