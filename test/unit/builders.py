"""Build the objects of a set as an API server stores them, from keyword arguments with sensible defaults.

Each builder returns a new plain dict, complete with UID, generation and owner references, which a test may
change. By default a set is at rest: everything is ready, observed, and on revision key "key-a".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lws.history.revision import build, draft
from lws.kube.metadata import owner_reference
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.pod_identity import group_key
from lws.leaderworkerset.revisions.history import FORMAT, Record
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.tables import TABLES
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.runtime.store import SharedKinds
from lws_api.leaderworkerset.v1 import (
    API_VERSION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LONG_AGO = "2026-01-01T00:00:00Z"
KEY = "key-a"

trim, is_same = (_kinds := SharedKinds(TABLES)).trim, _kinds.is_same
"""`trim` keeps the fields of an object that the store keeps. `is_same` reports whether no field that matters
differs.
"""


def make_pod_template(image: str = "app:1", labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Build a pod template with one container."""
    return {
        "metadata": {"labels": dict(labels or {})},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def make_set(
    name: str = "demo",
    *,
    namespace: str = "default",
    replicas: int = 2,
    size: int = 2,
    image: str = "app:1",
    partition: int | None = None,
    max_unavailable: int | str | None = None,
    max_surge: int | str | None = None,
    generation: int = 1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    terminating: bool = False,
    template: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Build a LeaderWorkerSet.

    template: more fields of leaderWorkerTemplate.
    spec: more fields of the spec, in camelCase.
    """
    rolling = {"partition": partition, "maxUnavailable": max_unavailable, "maxSurge": max_surge}
    configured = {field: value for field, value in rolling.items() if value is not None}
    lws: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "workerTemplate": make_pod_template(image),
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                **(template or {}),
            },
            "rolloutStrategy": {"type": "RollingUpdate"},
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "Shared"},
            **spec,
        },
    }
    if configured:
        lws["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] = configured
    lws["metadata"] |= {"labels": labels} if labels else {}
    lws["metadata"] |= {"annotations": annotations} if annotations else {}
    _store(lws, "set", generation, terminating)
    return lws if status is None else {**lws, "status": status}


def make_leader_statefulset(
    lws: dict[str, Any] | None = None,
    *,
    key: str = KEY,
    replicas: int | None = None,
    partition: int = 0,
    last_replicas: int | str | None = "as the set",
    max_unavailable: int | None = None,
    generation: int = 1,
    observed_generation: int | None = None,
    applied: str | None = LONG_AGO,
    terminating: bool = False,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the StatefulSet of the leaders, as the controller builds it.

    last_replicas: the value of the replicas annotation; None for no annotation.
    max_unavailable: None if the API server drops the field.
    observed_generation: by default the generation of the object.
    applied: the time of our last server-side apply; None if unknown.
    """
    lws = lws if lws is not None else make_set()
    name, desired = lws["metadata"]["name"], lws["spec"].get("replicas", 1)
    count = desired if replicas is None else replicas
    statefulset = build_leader_statefulset(
        SetSpec.of(lws), key, RollingUpdate(partition, count, max_unavailable or 1)
    )
    if max_unavailable is None:
        del statefulset["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
    if last_replicas is None:
        del statefulset["metadata"]["annotations"][REPLICAS_ANNOTATION]
    elif last_replicas != "as the set":
        statefulset["metadata"]["annotations"][REPLICAS_ANNOTATION] = str(last_replicas)
    _store(statefulset, "leaders", generation, terminating)
    if applied is not None:
        statefulset["metadata"]["managedFields"] = [{"manager": "lws", "operation": "Apply", "time": applied}]
    observed = generation if observed_generation is None else observed_generation
    statefulset["status"] = {
        **_reported(name, key, count, observed),
        "readyReplicas": count,
        **(status or {}),
    }
    return statefulset


def make_leader_pod(
    lws: dict[str, Any] | None = None,
    index: int = 0,
    *,
    key: str = KEY,
    ready: bool = True,
    phase: str = "Running",
    terminating: bool = False,
    uid: str | None = None,
    revision: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the leader pod of a group.

    revision: its controller-revision-hash label; "" for no label.
    """
    lws = lws if lws is not None else make_set()
    set_name, size = lws["metadata"]["name"], lws["spec"]["leaderWorkerTemplate"]["size"]
    name = f"{set_name}-{index}"
    own = {
        NAME_LABEL: set_name,
        WORKER_INDEX_LABEL: "0",
        GROUP_INDEX_LABEL: str(index),
        GROUP_KEY_LABEL: group_key(lws["metadata"]["namespace"], name),
        REVISION_LABEL: key,
    }
    hashed = statefulset_revision(set_name, key) if revision is None else revision
    if hashed:
        own["controller-revision-hash"] = hashed
    owner = make_leader_statefulset(lws, key=key)
    pod = _pod(name, owner, {**own, **(labels or {})}, {SIZE_ANNOTATION: str(size), **(annotations or {})})
    _store(pod, "pod", terminating=terminating)
    pod["metadata"]["uid"] = uid if uid is not None else pod["metadata"]["uid"]
    pod["status"] = {**_status(phase, ready), **(status or {})}
    return pod


def make_worker_statefulset(
    leader: dict[str, Any] | None = None,
    *,
    ready: bool = True,
    key: str | None = None,
    replicas: int | None = None,
    generation: int = 1,
    observed_generation: int | None = None,
    terminating: bool = False,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the StatefulSet of a group's workers, as the controller builds it, with key and size of the
    leader pod.
    """
    leader = leader if leader is not None else make_leader_pod()
    labels, size = leader["metadata"]["labels"], int(leader["metadata"]["annotations"][SIZE_ANNOTATION])
    lws = make_set(labels[NAME_LABEL], namespace=leader["metadata"]["namespace"], size=size)
    statefulset = build_worker_statefulset(SetSpec.of(lws), leader)
    key = key if key is not None else labels[REVISION_LABEL]
    for labelled in (statefulset, statefulset["spec"]["template"]):
        labelled["metadata"]["labels"][REVISION_LABEL] = key
    if replicas is not None:
        statefulset["spec"]["replicas"] = replicas
    _store(statefulset, "workers", generation, terminating)
    observed = generation if observed_generation is None else observed_generation
    statefulset["status"] = _reported(
        leader["metadata"]["name"], key, statefulset["spec"]["replicas"], observed
    )
    if not ready:
        statefulset["status"]["availableReplicas"] = 0
    statefulset["status"].update(status or {})
    return statefulset


def make_worker_pod(
    workers: dict[str, Any] | None = None,
    index: int = 1,
    *,
    ready: bool = True,
    phase: str = "Running",
    terminating: bool = False,
    uid: str | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build a worker pod of a group, owned by its worker StatefulSet."""
    workers = workers if workers is not None else make_worker_statefulset()
    name, size = workers["metadata"]["name"], workers["spec"]["replicas"] + 1
    labels = {**workers["metadata"]["labels"], WORKER_INDEX_LABEL: str(index)}
    pod = _pod(f"{name}-{index}", workers, labels, {SIZE_ANNOTATION: str(size), LEADER_NAME_ANNOTATION: name})
    _store(pod, "pod", terminating=terminating)
    pod["metadata"]["uid"] = uid if uid is not None else pod["metadata"]["uid"]
    pod["status"] = {**_status(phase, ready), **(status or {})}
    return pod


def make_group(
    lws: dict[str, Any] | None = None,
    index: int = 0,
    *,
    workers_ready: bool = True,
    workers: bool | None = None,
    **leader: Any,
) -> GroupFacts:
    """Build a leader pod with its workers.

    workers: whether their StatefulSet exists; by default it does if the size is greater than 1.
    """
    pod = make_leader_pod(lws, index, **leader)
    has_workers = pod["metadata"]["annotations"][SIZE_ANNOTATION] != "1" if workers is None else workers
    statefulset = make_worker_statefulset(pod, ready=workers_ready) if has_workers else None
    workers = statefulset["spec"]["replicas"] if statefulset is not None else 0
    uids = tuple(f"uid-of-pod-{pod['metadata']['name']}-{worker}" for worker in range(1, workers + 1))
    return GroupFacts(index=index, leader=pod, worker_statefulset=statefulset, worker_uids=uids)


def statefulset_revision(name: str, key: str) -> str:
    """Return the name of the StatefulSet controller's ControllerRevision for a template with this key."""
    return f"{name}-of-{key}"


def _store(obj: dict[str, Any], role: str, generation: int = 1, terminating: bool = False) -> None:
    """Add the metadata that the API server adds."""
    metadata = obj["metadata"]
    metadata["uid"] = f"uid-of-{role}-{metadata['name']}"
    metadata["resourceVersion"] = "1"
    metadata["generation"] = generation
    metadata["creationTimestamp"] = LONG_AGO
    if terminating:
        metadata["deletionTimestamp"] = "2026-03-01T11:59:00Z"


def _reported(name: str, key: str, count: int, observed_generation: int) -> dict[str, Any]:
    revision = statefulset_revision(name, key)
    return {
        "observedGeneration": observed_generation,
        "replicas": count,
        "availableReplicas": count,
        "currentRevision": revision,
        "updateRevision": revision,
    }


def _pod(
    name: str, owner: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "nodeName": "node-1"},
    }


def _status(phase: str, ready: bool) -> dict[str, Any]:
    return {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True" if ready and phase == "Running" else "False"}],
        "containerStatuses": [{"name": "main", "restartCount": 0}],
    }


def build_revision(lws: Any, record: Record, number: int, *, probe: int = 0, key: str = "") -> dict[str, Any]:
    """Build a ControllerRevision of a set.

    probe: the number of collisions.
    key: the revision key of pods that run without a history, which replaces the hash.
    """
    fingerprint = record.key_at(probe)
    generation = lws["metadata"].get("generation", 0) if key else None
    return build(FORMAT, lws, draft(lws, fingerprint, number, record, key, generation))
