"""A set of 4 groups of 4 pods has the expected objects, names, labels, variables and owners.

The whole file has one set, which its tests only read.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import (
    API_VERSION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.harness.events import Event, events_of, raw_events_of
from test.harness.groups import (
    annotations_of,
    condition,
    controller_of,
    labels_of,
    name_of,
    names_of,
    pods_of,
    revisions_of,
    settle,
)
from test.harness.manifests import a_set
from test.harness.waiting import eventually
from test.harness.world import SET, World

NAME, REPLICAS, SIZE = "four", 4, 4
GROUPS, WORKERS = range(REPLICAS), range(1, SIZE)
PREFIX = "leaderworkerset.sigs.k8s.io/"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "server"}, "annotations": {"note": "kept"}},
    "spec": {
        "initContainers": [{"name": "before", "image": "before:1", "env": [{"name": "X", "value": "1"}]}],
        "containers": [
            {
                "name": "server",
                "image": "server:1",
                "env": [
                    {"name": "URL", "value": "http://$(LWS_LEADER_ADDRESS):80"},
                    {"name": "LWS_GROUP_SIZE", "value": "of the user"},
                ],
            },
            {"name": "side", "image": "side:1"},
        ],
    },
}


@pytest.fixture(scope="module")
def world(shared_world: World) -> World:
    """The set, created by `kubectl apply` and settled."""
    manifest = a_set(NAME, REPLICAS, SIZE, workers=TEMPLATE)
    manifest["metadata"] |= {"labels": {"team": "serving"}, "annotations": {"contact": "team"}}
    shared_world.kubectl("apply", "-f", "-", input=manifest)
    settle(shared_world, NAME)

    def recorded_members() -> set[str]:
        return set(shared_world.get(SET, NAME)["status"].get("members", {}))

    eventually(
        "the members of every group are recorded", recorded_members, lambda now: now == set(map(str, GROUPS))
    )
    return shared_world


@pytest.fixture(scope="module")
def key(world: World) -> str:
    """The revision key of the leader StatefulSet."""
    return labels_of(world.get("StatefulSet", NAME))[REVISION_LABEL]


def group_key(world: World, index: int) -> str:
    return hashlib.sha1(f"{world.namespace}/{NAME}-{index}".encode()).hexdigest()


def lws_labels(obj: dict[str, Any]) -> dict[str, str]:
    """Return only our labels; StatefulSets add labels of their own to pods."""
    return {label: value for label, value in labels_of(obj).items() if label.startswith(PREFIX)}


def test_names_of_children(world: World, key: str) -> None:
    leaders = {f"{NAME}-{index}" for index in GROUPS}
    assert names_of(pods_of(world, NAME)) == leaders | {
        f"{pod}-{worker}" for pod in leaders for worker in WORKERS
    }
    assert names_of(world.list("StatefulSet")) == {NAME} | leaders
    assert names_of(world.list("Service")) == {NAME}
    assert names_of(revisions_of(world, NAME)) == {f"{NAME}-{key}-1"}


def test_labels_of_pods(world: World, key: str) -> None:
    for index in GROUPS:
        identity = {
            NAME_LABEL: NAME,
            GROUP_INDEX_LABEL: str(index),
            GROUP_KEY_LABEL: group_key(world, index),
            REVISION_LABEL: key,
        }
        leader = world.get("Pod", f"{NAME}-{index}")
        assert lws_labels(leader) == identity | {WORKER_INDEX_LABEL: "0"}
        for worker in WORKERS:
            pod = world.get("Pod", f"{NAME}-{index}-{worker}")
            assert lws_labels(pod) == identity | {WORKER_INDEX_LABEL: str(worker)}
        assert lws_labels(world.get("StatefulSet", f"{NAME}-{index}")) == identity | {ROLE_LABEL: "worker"}
    of_leaders = {NAME_LABEL: NAME, REVISION_LABEL: key, ROLE_LABEL: "leader"}
    assert lws_labels(world.get("StatefulSet", NAME)) == of_leaders
    assert all(labels_of(pod)["app"] == "server" for pod in pods_of(world, NAME))


def test_annotations_of_pods(world: World) -> None:
    for pod in pods_of(world, NAME):
        leader, _, worker = name_of(pod).removeprefix(f"{NAME}-").partition("-")
        address = f"{NAME}-{leader}.{NAME}.{world.namespace}"
        marks = {LEADER_NAME_ANNOTATION: f"{NAME}-{leader}", LEADER_ADDRESS_ANNOTATION: address}
        of_worker = marks if worker else {}
        assert annotations_of(pod) == {"note": "kept", SIZE_ANNOTATION: str(SIZE), **of_worker}


def test_labels_and_annotations_except_tool_keys_are_copied_to_statefulsets(world: World) -> None:
    assert "kubectl.kubernetes.io/last-applied-configuration" in annotations_of(world.get(SET, NAME))
    for statefulset in world.list("StatefulSet"):
        assert labels_of(statefulset)["team"] == "serving"
        of_leaders = {REPLICAS_ANNOTATION: str(REPLICAS)} if name_of(statefulset) == NAME else {}
        assert annotations_of(statefulset) == {"contact": "team", **of_leaders}
    assert not any("team" in labels_of(pod) for pod in pods_of(world, NAME))


def test_environment_variables_of_containers(world: World) -> None:
    for index in GROUPS:
        for worker in (0, *WORKERS):
            name = f"{NAME}-{index}-{worker}" if worker else f"{NAME}-{index}"
            spec = world.get("Pod", name)["spec"]
            injected = [
                {"name": "LWS_LEADER_ADDRESS", "value": f"{NAME}-{index}.{NAME}.{world.namespace}"},
                {"name": "LWS_GROUP_SIZE", "value": str(SIZE)},
                {"name": "LWS_WORKER_INDEX", "value": str(worker)},
            ]
            (before,), (server, side) = spec["initContainers"], spec["containers"]
            assert before["env"] == [*injected, {"name": "X", "value": "1"}]
            assert server["env"] == [*injected, {"name": "URL", "value": "http://$(LWS_LEADER_ADDRESS):80"}]
            assert side["env"] == injected


def test_owner_references_lead_to_the_set(world: World) -> None:
    def assert_owned(obj: dict[str, Any], kind: str, owner: str) -> None:
        (reference,) = obj["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"]) == (kind, owner)
        assert reference["uid"] == world.uid(kind, owner)
        assert reference["controller"] is reference["blockOwnerDeletion"] is True

    for child in (world.get("StatefulSet", NAME), world.get("Service", NAME), *revisions_of(world, NAME)):
        assert_owned(child, SET, NAME)
        assert controller_of(child)["apiVersion"] == API_VERSION
    for index in GROUPS:
        leader = f"{NAME}-{index}"
        assert_owned(world.get("Pod", leader), "StatefulSet", NAME)
        assert_owned(world.get("StatefulSet", leader), "Pod", leader)
        for worker in WORKERS:
            assert_owned(world.get("Pod", f"{leader}-{worker}"), "StatefulSet", leader)


def test_the_leader_statefulset_starts_all_groups_in_parallel(world: World, key: str) -> None:
    spec = world.get("StatefulSet", NAME)["spec"]
    assert spec["selector"] == {"matchLabels": {NAME_LABEL: NAME, WORKER_INDEX_LABEL: "0"}}
    assert spec["updateStrategy"]["type"] == "RollingUpdate"
    assert spec["updateStrategy"]["rollingUpdate"]["partition"] == 0
    actual = {field: spec[field] for field in ("serviceName", "replicas", "podManagementPolicy")}
    assert actual == {"serviceName": NAME, "replicas": REPLICAS, "podManagementPolicy": "Parallel"}
    metadata = spec["template"]["metadata"]
    # Before 1.34, Kubernetes adds `creationTimestamp: null` to a template.
    assert {name: value for name, value in metadata.items() if value is not None} == {
        "labels": {"app": "server", NAME_LABEL: NAME, WORKER_INDEX_LABEL: "0", REVISION_LABEL: key},
        "annotations": {"note": "kept", SIZE_ANNOTATION: str(SIZE)},
    }


def test_worker_ordinals_start_at_one(world: World) -> None:
    for index in GROUPS:
        spec = world.get("StatefulSet", f"{NAME}-{index}")["spec"]
        assert spec["ordinals"] == {"start": 1}
        assert spec["selector"]["matchLabels"] == {
            NAME_LABEL: NAME,
            GROUP_INDEX_LABEL: str(index),
            GROUP_KEY_LABEL: group_key(world, index),
        }
        actual = {field: spec[field] for field in ("serviceName", "replicas", "podManagementPolicy")}
        assert actual == {"serviceName": NAME, "replicas": SIZE - 1, "podManagementPolicy": "Parallel"}


def test_all_pods_share_one_headless_service(world: World) -> None:
    service = world.get("Service", NAME)
    assert labels_of(service) == {NAME_LABEL: NAME}
    spec = service["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert spec["selector"] == {NAME_LABEL: NAME}
    assert "ports" not in spec
    assert {pod["spec"]["subdomain"] for pod in pods_of(world, NAME)} == {NAME}


def test_the_revision_records_the_pod_templates(world: World, key: str) -> None:
    (revision,) = revisions_of(world, NAME)
    assert revision["revision"] == 1
    assert labels_of(revision) == {NAME_LABEL: NAME, REVISION_LABEL: key}
    recorded = revision["data"]["spec"]
    assert recorded["networkConfig"] == {"$patch": "replace", "subdomainPolicy": "Shared"}
    template = recorded["leaderWorkerTemplate"]
    assert (template["$patch"], template["size"]) == ("replace", SIZE)
    assert template["workerTemplate"]["metadata"] == TEMPLATE["metadata"]


def test_the_status_is_available(world: World, key: str) -> None:
    lws = world.get(SET, NAME)
    status = dict(lws["status"])
    conditions = {entry["type"]: entry for entry in status.pop("conditions")}
    assert (status.pop("members").keys(), bool(status.pop("lastProgressTime"))) == (
        set(map(str, GROUPS)),
        True,
    )
    assert status == {
        "groups": {"counts": {"Ready": REPLICAS}},
        "observedGeneration": 1,
        "replicas": REPLICAS,
        "readyReplicas": REPLICAS,
        "updatedReplicas": REPLICAS,
        "hpaPodSelector": f"{NAME_LABEL}={NAME},{WORKER_INDEX_LABEL}=0",
        "currentRevision": f"{NAME}-{key}-1",
        "updateRevision": f"{NAME}-{key}-1",
    }
    assert {kind: conditions[kind]["status"] for kind in conditions} == {
        "Available": "True",
        "Degraded": "False",
        "Progressing": "False",
    }
    available = condition(lws, "Available")
    assert (available["reason"], available["message"]) == ("AllGroupsReady", "All replicas are ready")


def test_events_of_the_creation(world: World, key: str) -> None:
    revision = f"ControllerRevision {NAME}-{key}-1"
    creating = f"Creating revision with key {key} for a newly created LeaderWorkerSet"
    expected = [
        Event("Normal", "CreatingRevision", "Create", creating, revision),
        Event("Normal", "GroupsProgressing", "Create", f"Created leader statefulset {NAME}", revision),
        Event(
            "Normal",
            "GroupsProgressing",
            "Update",
            "Replicas are progressing, with 0 groups ready of total 4 groups",
        ),
        Event(
            "Normal",
            "AllGroupsReady",
            "Update",
            "All replicas are ready, with 4 groups ready of total 4 groups",
        ),
    ]
    leaders = [f"{NAME}-{index}" for index in GROUPS]
    created = "Created worker statefulset for leader pod"
    workers = [
        Event("Normal", "GroupsProgressing", "Create", f"{created} {leader}", f"Pod {leader}")
        for leader in leaders
    ]
    count = len(expected) + len(workers)
    events = eventually(
        "all Events exist", lambda: events_of(world, NAME), lambda events: len(events) >= count
    )
    assert sorted(events) == sorted([*expected, *workers]), "each of a few groups has its own Event"
    assert (events[0], events[-1]) == (expected[0], expected[-1])
    for event in raw_events_of(world, NAME):
        assert event["reportingController"] == "leaderworkerset"
        assert event["reportingInstance"].startswith("leaderworkerset-")
        assert "series" not in event
