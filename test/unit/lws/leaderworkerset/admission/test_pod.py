"""Tests of lws.leaderworkerset.admission.pod: what a pod gets when it is created, and why one is rejected."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest

from lws.kube.field_errors import Refused
from lws.kube.metadata import copied
from lws.leaderworkerset.admission.pod import admit, copy_to_admit
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

RC_0_KEY = "341f0f4bd9ee69e9816d255fe98eb575651ea9f8"
REMEDY = "remove the label leaderworkerset.sigs.k8s.io/name from pods that no LeaderWorkerSet created"


def make_leader(
    name: str = "rc-0", *, labels: Any = None, annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return a leader pod as the StatefulSet controller creates it."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {NAME_LABEL: "rc", WORKER_INDEX_LABEL: "0", **(labels or {})},
            "annotations": {SIZE_ANNOTATION: "4", **(annotations or {})},
        },
        "spec": {"subdomain": "rc", "containers": [{"name": "main"}], **spec},
    }


def make_worker(
    name: str = "rc-0-2", *, labels: Any = None, annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return a worker pod as the StatefulSet controller creates it."""
    group = {NAME_LABEL: "rc", GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: RC_0_KEY}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {**group, **(labels or {})},
            "annotations": {SIZE_ANNOTATION: "4", LEADER_NAME_ANNOTATION: "rc-0", **(annotations or {})},
        },
        "spec": {"subdomain": "rc", "containers": [{"name": "main"}], **spec},
    }


def make_environment(address: str, size: str, worker_index: str) -> list[dict[str, Any]]:
    return [
        {"name": "LWS_LEADER_ADDRESS", "value": address},
        {"name": "LWS_GROUP_SIZE", "value": size},
        {"name": "LWS_WORKER_INDEX", "value": worker_index},
    ]


LEADER_ENVIRONMENT = make_environment("rc-0.rc.default", "4", "0")


def without(pod: dict[str, Any], *path: str) -> dict[str, Any]:
    parent = pod
    for part in path[:-1]:
        parent = parent[part]
    del parent[path[-1]]
    return pod


def admitted(pod: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    admit(pod, namespace)
    return pod


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            make_leader(),
            make_leader(
                labels={GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: RC_0_KEY},
                containers=[{"name": "main", "env": LEADER_ENVIRONMENT}],
            ),
            id="leader",
        ),
        pytest.param(
            make_leader("rc-12"),
            make_leader(
                "rc-12",
                labels={
                    GROUP_INDEX_LABEL: "12",
                    GROUP_KEY_LABEL: "d2f156282212ec0950d6637eea18a9f5a2ffa86e",
                },
                containers=[{"name": "main", "env": make_environment("rc-12.rc.default", "4", "0")}],
            ),
            id="leader with two digits",
        ),
        pytest.param(
            make_leader(labels={GROUP_INDEX_LABEL: "7", GROUP_KEY_LABEL: "mine"}),
            make_leader(
                labels={GROUP_INDEX_LABEL: "7", GROUP_KEY_LABEL: "mine"},
                containers=[{"name": "main", "env": make_environment("rc-7.rc.default", "4", "0")}],
            ),
            id="leader with index and key",
        ),
        pytest.param(
            make_leader("solo", labels={GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: "mine"}),
            make_leader(
                "solo",
                labels={GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: "mine"},
                containers=[{"name": "main", "env": LEADER_ENVIRONMENT}],
            ),
            id="leader with an index needs no ordinal",
        ),
        pytest.param(
            make_leader(annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"}),
            make_leader(
                labels={GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: RC_0_KEY},
                annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"},
                subdomain="rc-0",
                containers=[{"name": "main", "env": make_environment("rc-0.rc-0.default", "4", "0")}],
            ),
            id="leader with its own subdomain",
        ),
        pytest.param(
            make_leader(annotations={SUBDOMAIN_POLICY_ANNOTATION: "Shared"}),
            make_leader(
                labels={GROUP_INDEX_LABEL: "0", GROUP_KEY_LABEL: RC_0_KEY},
                annotations={SUBDOMAIN_POLICY_ANNOTATION: "Shared"},
                containers=[{"name": "main", "env": LEADER_ENVIRONMENT}],
            ),
            id="leader with the shared subdomain",
        ),
        pytest.param(
            make_worker(),
            make_worker(
                labels={WORKER_INDEX_LABEL: "2"},
                containers=[{"name": "main", "env": make_environment("rc-0.rc.default", "4", "2")}],
            ),
            id="worker",
        ),
        pytest.param(
            make_worker("rc-0-3", labels={WORKER_INDEX_LABEL: "9"}),
            make_worker(
                "rc-0-3",
                labels={WORKER_INDEX_LABEL: "3"},
                containers=[{"name": "main", "env": make_environment("rc-0.rc.default", "4", "3")}],
            ),
            id="worker's index is always its ordinal",
        ),
        pytest.param(
            make_worker("rc-0", labels={WORKER_INDEX_LABEL: "1"}),
            make_worker(
                "rc-0",
                labels={WORKER_INDEX_LABEL: "0"},
                containers=[{"name": "main", "env": make_environment("rc-0.rc.default", "4", "0")}],
            ),
            id="worker ordinal 0",
        ),
        pytest.param(
            make_worker(
                labels={GROUP_KEY_LABEL: "k"}, annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"}
            ),
            make_worker(
                labels={GROUP_KEY_LABEL: "k", WORKER_INDEX_LABEL: "2"},
                annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"},
                containers=[{"name": "main", "env": make_environment("rc-0.rc.default", "4", "2")}],
            ),
            id="worker keeps subdomain and key",
        ),
        pytest.param(
            make_worker(subdomain="rc-0", annotations={SIZE_ANNOTATION: "16"}),
            make_worker(
                subdomain="rc-0",
                labels={WORKER_INDEX_LABEL: "2"},
                annotations={SIZE_ANNOTATION: "16"},
                containers=[{"name": "main", "env": make_environment("rc-0.rc-0.default", "16", "2")}],
            ),
            id="size and subdomain of the pod",
        ),
    ],
)
def test_admitted(pod: dict[str, Any], expected: dict[str, Any]) -> None:
    assert admitted(pod) == expected
    assert admitted(pod) == expected


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None}, id="null metadata"),
        pytest.param({"metadata": {"name": "a-0"}, "spec": {"containers": [{"name": "c"}]}}, id="no labels"),
        pytest.param({"metadata": {"name": "a-0", "labels": None}, "spec": None}, id="null labels"),
        pytest.param(
            {"metadata": {"labels": [NAME_LABEL]}, "spec": {"containers": 1}}, id="labels of a wrong type"
        ),
        pytest.param({"metadata": {"labels": {WORKER_INDEX_LABEL: "0"}}}, id="other labels of ours"),
    ],
)
def test_a_pod_without_the_name_label_is_untouched(pod: dict[str, Any]) -> None:
    before = copy.deepcopy(pod)
    assert admitted(pod) == before


def test_a_pod_labelled_as_leader_gets_the_leader_fields() -> None:
    """Otherwise the second admission would add what the first has omitted."""
    pod = make_worker("rc-0", labels={WORKER_INDEX_LABEL: "1"})
    without(pod, "metadata", "labels", GROUP_KEY_LABEL)
    once = copy.deepcopy(admitted(pod))
    assert once["metadata"]["labels"][GROUP_KEY_LABEL] == RC_0_KEY
    assert admitted(pod) == once


def test_a_worker_with_index_0_in_its_template_is_a_worker() -> None:
    """The pod's StatefulSet names its leader: this makes it a worker. The index comes from the pod's name."""
    pod = admitted(make_worker("rc-0-2", labels={WORKER_INDEX_LABEL: "0"}))
    assert pod["metadata"]["labels"][WORKER_INDEX_LABEL] == "2"
    assert admitted(pod) == pod


def test_a_worker_keeps_an_existing_leader_address() -> None:
    """The pod controller knows the host name of a leader without ordinal."""
    pod = admitted(make_worker(annotations={LEADER_ADDRESS_ANNOTATION: "rc-5f3a.rc.default"}))
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "rc-5f3a.rc.default"


def test_leader_address_uses_the_pod_name() -> None:
    pod = admitted(make_leader(annotations={LEADER_ADDRESS_ANNOTATION: "elsewhere"}))
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "rc-0.rc.default"


def test_namespace_of_the_request_is_used_if_the_pod_has_none() -> None:
    pod = admitted(without(make_leader(), "metadata", "namespace"), "prod")
    assert pod["metadata"]["labels"][GROUP_KEY_LABEL] == "f0ede5468086c4ddb0373751cc8963dc29dd10cd"
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "rc-0.rc.prod"
    assert "namespace" not in pod["metadata"]


# Environment


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(None, [], id="null"),
        pytest.param([], [], id="empty"),
        pytest.param(
            [{"name": "A", "value": "$(LWS_LEADER_ADDRESS)"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
            [{"name": "A", "value": "$(LWS_LEADER_ADDRESS)"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
            id="user variables follow unchanged",
        ),
        pytest.param(
            [{"name": "LWS_WORKER_INDEX", "value": "9"}, {"name": "A"}, {"name": "LWS_LEADER_ADDRESS"}],
            [{"name": "A"}],
            id="user variables with reserved names",
        ),
        pytest.param(
            [
                {"name": "A", "value": "1"},
                {"name": "B"},
                {"name": "A", "value": "2"},
                {"name": "B", "value": "3"},
            ],
            [{"name": "A", "value": "1"}, {"name": "B"}],
            id="duplicate user variables",
        ),
        pytest.param(
            [{"value": "1"}, {"value": "2"}, {"name": ["A"]}],
            [{"value": "1"}, {"value": "2"}, {"name": ["A"]}],
            id="variable without a name",
        ),
    ],
)
def test_environment(own: Any, expected: list[dict[str, Any]]) -> None:
    pod = admitted(make_leader(containers=[{"name": "main", "env": own}]))
    assert pod["spec"]["containers"] == [{"name": "main", "env": LEADER_ENVIRONMENT + expected}]


def test_environment_of_all_containers_but_ephemeral_ones() -> None:
    pod = admitted(
        make_leader(
            initContainers=[
                {"name": "i", "env": [{"name": "A"}]},
                {"name": "sidecar", "restartPolicy": "Always"},
            ],
            containers=[{"name": "a"}, {"name": "b", "env": [{"name": "A"}]}],
            ephemeralContainers=[{"name": "e"}],
        )
    )
    named = {"name": "A"}
    assert pod["spec"]["initContainers"] == [
        {"name": "i", "env": [*LEADER_ENVIRONMENT, named]},
        {"name": "sidecar", "restartPolicy": "Always", "env": LEADER_ENVIRONMENT},
    ]
    assert pod["spec"]["containers"] == [
        {"name": "a", "env": LEADER_ENVIRONMENT},
        {"name": "b", "env": [*LEADER_ENVIRONMENT, named]},
    ]
    assert pod["spec"]["ephemeralContainers"] == [{"name": "e"}]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            make_leader(containers=None), {"subdomain": "rc", "containers": None}, id="null containers"
        ),
        pytest.param(without(make_leader(), "spec", "containers"), {"subdomain": "rc"}, id="no containers"),
        pytest.param({**make_leader(), "spec": None}, None, id="null spec"),
        pytest.param(
            {**make_leader(annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"}), "spec": None},
            {"subdomain": "rc-0"},
            id="null spec with a subdomain to set",
        ),
    ],
)
def test_a_pod_without_containers_gets_its_labels(pod: dict[str, Any], expected: Any) -> None:
    admit(pod, "default")
    assert pod["spec"] == expected
    assert pod["metadata"]["labels"][GROUP_KEY_LABEL] == RC_0_KEY


# Rejections


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            without(make_leader(), "metadata", "annotations"),
            "size annotation is unexpectedly missing for pod rc-0",
            id="no annotations",
        ),
        pytest.param(
            without(make_worker(), "metadata", "annotations", SIZE_ANNOTATION),
            "size annotation is unexpectedly missing for pod rc-0-2",
            id="no size",
        ),
        pytest.param(
            {"metadata": {"generateName": "rc-", "labels": {NAME_LABEL: "rc"}, "annotations": None}},
            "size annotation is unexpectedly missing for pod rc-",
            id="no size and no name",
        ),
        pytest.param(
            make_leader(annotations={SIZE_ANNOTATION: "four"}),
            "annotation leaderworkerset.sigs.k8s.io/size of pod rc-0 must be an integer, "
            'not "four"; the controller sets it, templates must not',
            id="size is not a number",
        ),
        pytest.param(
            make_leader(annotations={SIZE_ANNOTATION: ""}),
            "annotation leaderworkerset.sigs.k8s.io/size of pod rc-0 must be an integer, "
            'not ""; the controller sets it, templates must not',
            id="empty size",
        ),
        pytest.param(
            make_leader(annotations={SIZE_ANNOTATION: 4}),
            "annotation leaderworkerset.sigs.k8s.io/size of pod rc-0 must be an integer, "
            "not 4; the controller sets it, templates must not",
            id="size is not a string",
        ),
        pytest.param(
            make_leader("rc"),
            "pod rc has no index: its name must end in a dash and a number, as in StatefulSets; " + REMEDY,
            id="leader without ordinal",
        ),
        pytest.param(
            make_worker("rc-0-2147483648"),
            "pod rc-0-2147483648 has no index: its name must end in a dash and a number, as in StatefulSets; "
            + REMEDY,
            id="worker with an ordinal beyond int32",
        ),
        pytest.param(
            without(make_worker(), "metadata", "labels", GROUP_INDEX_LABEL),
            "no group index label found for pod rc-0-2 (leaderworkerset.sigs.k8s.io/group-index), "
            f"so its group is unknown; {REMEDY}",
            id="worker without group",
        ),
        pytest.param(
            make_leader("") | {"spec": {}},
            f"pod (unnamed) has no name yet, so its place in the set is unknown; {REMEDY}",
            id="no name",
        ),
        pytest.param({**make_leader(), "spec": "x"}, 'spec must be an object, not "x"', id="spec"),
        pytest.param(make_leader(containers={}), "spec.containers must be a list, not {}", id="containers"),
        pytest.param(
            make_leader(initContainers=[{"name": "a"}, None]),
            "spec.initContainers[1] must be an object, not null",
            id="null init container",
        ),
        pytest.param(
            make_leader(containers=[{"name": "a", "env": "A=1"}]),
            'spec.containers[0].env must be a list, not "A=1"',
            id="env",
        ),
        pytest.param(
            make_leader(containers=[{"name": "a", "env": [{"name": "A"}, "B"]}]),
            'spec.containers[0].env[1] must be an object, not "B"',
            id="env entry",
        ),
    ],
)
def test_refused(pod: dict[str, Any], expected: str) -> None:
    before = copy.deepcopy(pod)
    with pytest.raises(Refused) as refusal:
        admit(pod, "default")
    assert str(refusal.value) == expected
    assert pod == before


def test_a_leader_whose_name_is_still_to_be_generated_is_refused() -> None:
    pod = without(make_leader(labels={GROUP_INDEX_LABEL: "0"}), "metadata", "name")
    pod["metadata"]["generateName"] = "rc-"
    with pytest.raises(Refused, match=r"^pod rc- has no name yet, "):
        admit(pod, "default")


# Invalid values in every field

JUNK = [
    None,
    True,
    -1,
    1.5,
    "",
    "x",
    "9" * 5000,
    "a-" + "9" * 5000,
    "\ud800-1",
    [],
    [None],
    [{}],
    {},
    {"env": None},
]
FULL = [
    make_leader(
        annotations={SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"},
        initContainers=[{"name": "i", "env": [{"name": "A", "value": "1"}]}],
    ),
    make_worker(containers=[{"name": "c", "env": [{"name": "A", "value": "1"}]}]),
    make_leader(
        "rc-x2x4z",
        labels={GROUP_INDEX_LABEL: RC_0_KEY, GROUP_KEY_LABEL: RC_0_KEY},
        annotations={GROUP_IDENTITY_ANNOTATION: "Hash", SUBGROUP_SIZE_ANNOTATION: "2"},
        hostname="rc-341f0f4b",
        schedulingGates=[{"name": "g"}],
    ),
    make_worker(
        annotations={
            SUBGROUP_SIZE_ANNOTATION: "2",
            SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host",
            LEADER_REQUESTS_TPUS_ANNOTATION: "true",
        },
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}},
        containers=[{"name": "c", "resources": {"limits": {"google.com/tpu": "4"}}}],
    ),
]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    below = [nested for key in keys for nested in paths_in(value[key], (*path, key))]
    return [path, *below] if path else below


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        pytest.param(pod, path, id=f"{pod['metadata']['name']} {'.'.join(map(str, path))}")
        for pod in FULL
        for path in paths_in(pod)
    ],
)
def test_pods_of_any_shape_are_rejected_or_admitted_without_an_exception(
    pod: dict[str, Any], path: tuple[Any, ...]
) -> None:
    for junk in JUNK:
        broken = copied(pod)
        parent: Any = broken
        for part in path[:-1]:
            parent = parent[part]
        parent[path[-1]] = copy.deepcopy(junk)
        before, copied_pod = copied(broken), copy_to_admit(broken)
        with suppress(Refused):
            admit(copied_pod, "default")
        assert broken == before
        try:
            admit(broken, "default")
        except Refused as refused:
            assert str(refused)
            assert copied_pod == broken == before
            continue
        assert copied_pod == broken
        once = copied(broken)
        admit(broken, "default")
        assert broken == once
