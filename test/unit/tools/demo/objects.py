"""Objects of a set as an API server would return them, for tests of the demo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_SIZE_ENV,
    LEADER_ADDRESS_ENV,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_ENV,
    WORKER_INDEX_LABEL,
)
from tools.demo.facts import Kind, Object, Record, View

NAME = "quickstart"
CREATED = "2026-01-01T00:00:00Z"
IMAGE = "example.com/pause:3.10"
SET_UID = "set-uid"


def make_pod(group: int, index: int, **changes: Any) -> dict[str, Any]:
    """Return a ready pod.

    changes: uid, owner, revision, image, size, ready, phase, node, terminating, reason.
    """
    name = f"{NAME}-{group}" + (f"-{index}" if index else "")
    uid = changes.get("uid", f"{NAME}-{group}-{index}-uid")
    owner = changes.get("owner", f"workers-{group}-uid" if index else "leaders-uid")
    size = changes.get("size", 4)
    environment = {
        LEADER_ADDRESS_ENV: f"{NAME}-{group}.{NAME}.default",
        GROUP_SIZE_ENV: str(size),
        WORKER_INDEX_ENV: str(index),
        **changes.get("environment", {}),
    }
    metadata: dict[str, Any] = {
        "name": name,
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
        "labels": {
            NAME_LABEL: changes.get("set_name", NAME),
            GROUP_INDEX_LABEL: str(group),
            WORKER_INDEX_LABEL: str(index),
            REVISION_LABEL: changes.get("revision", "old"),
        },
        "annotations": {SIZE_ANNOTATION: str(size)},
        "ownerReferences": [{"kind": "StatefulSet", "uid": owner, "controller": True}],
    }
    if changes.get("terminating"):
        metadata["deletionTimestamp"] = CREATED
    status: dict[str, Any] = {
        "phase": changes.get("phase", "Running"),
        "conditions": [{"type": "Ready", "status": str(changes.get("ready", True))}],
    }
    if "reason" in changes:
        status["reason"] = changes["reason"]
    container = {
        "name": "worker",
        "image": changes.get("image", IMAGE),
        "env": [{"name": key, "value": value} for key, value in environment.items()],
    }
    spec = {"containers": [container], "nodeName": changes.get("node", "node-0")}
    return {"metadata": metadata, "spec": spec, "status": status}


def make_group(index: int, size: int = 4, **changes: Any) -> list[dict[str, Any]]:
    """Return the pods of a group.

    With `incarnation`, their UIDs and the UID of their StatefulSet end in it.
    """
    suffix = changes.pop("incarnation", "")
    return [
        make_pod(
            index,
            worker,
            size=size,
            uid=f"{NAME}-{index}-{worker}-uid{suffix}",
            owner=f"workers-{index}-uid{suffix}" if worker else "leaders-uid",
            **changes,
        )
        for worker in range(size)
    ]


def make_statefulset(name: str, uid: str, owner: str, replicas: int, **status: Any) -> dict[str, Any]:
    """Return a StatefulSet whose replicas are all ready, except for fields in `status`."""
    return {
        "metadata": _metadata(name, uid, owner),
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "updatedReplicas": replicas,
            "currentRevision": "r",
            "updateRevision": "r",
            **status,
        },
    }


def make_set(replicas: int = 4, size: int = 4, **status: Any) -> dict[str, Any]:
    """Return a set that is Available, except for fields in `status`."""
    conditions = status.pop("true", ["Available"])
    types = ("Progressing", "Available", "UpdateInProgress")
    return {
        "metadata": {**_metadata(NAME, SET_UID, ""), "creationTimestamp": CREATED},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": size}},
        "status": {
            "observedGeneration": 1,
            "readyReplicas": replicas,
            "updatedReplicas": replicas,
            "conditions": [
                {"type": condition, "status": str(condition in conditions), "reason": f"{condition}Reason"}
                for condition in types
            ],
            **status,
        },
    }


def make_revision(key: str, owner: str = SET_UID) -> dict[str, Any]:
    """Return a ControllerRevision."""
    metadata = _metadata(f"{NAME}-{key}-1", f"revision-{key}-{owner}", owner)
    return {"metadata": {**metadata, "labels": {REVISION_LABEL: key}}}


def make_service() -> dict[str, Any]:
    """Return the headless Service of a set."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"metadata": _metadata(NAME, "service-uid", SET_UID), "spec": spec}


def make_event(reason: str, note: str, **changes: Any) -> dict[str, Any]:
    """Return an Event about the set."""
    return {
        "metadata": _metadata(f"{NAME}.{reason}.{note}", f"event-{reason}-{note}", ""),
        "type": changes.get("type", "Normal"),
        "reason": reason,
        "note": note,
        "eventTime": changes.get("at", CREATED),
        "regarding": {"kind": changes.get("kind", "LeaderWorkerSet"), "uid": changes.get("uid", SET_UID)},
        **({"series": changes["series"]} if "series" in changes else {}),
    }


def make_lease(holder: str) -> dict[str, Any]:
    """Return the Lease of a manager."""
    return {"metadata": _metadata("lease", "lease-uid", ""), "spec": {"holderIdentity": holder}}


def make_children(pods: Sequence[Object]) -> list[dict[str, Any]]:
    """Return the StatefulSets of these pods.

    Their UIDs are `leaders-uid` and `workers-0-uid…`, the latter owned by `quickstart-0-0-uid…`.
    """
    groups = {pod["metadata"]["labels"][GROUP_INDEX_LABEL] for pod in pods}
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} - {"leaders-uid"}
    statefulsets = [
        make_statefulset(f"{NAME}-{group}", uid, f"{NAME}-{group}-0-{incarnation}", 3)
        for uid in sorted(owners)
        for _, group, incarnation in [uid.split("-", 2)]
    ]
    return [make_statefulset(NAME, "leaders-uid", SET_UID, len(groups)), *statefulsets]


def make_view(
    pods: Iterable[Object] | None = None, lws: Object | None = None, **others: Sequence[Object]
) -> View:
    """Return a view of a whole set, by default 4 groups of 4.

    others: events, leases, revisions, statefulsets.
    """
    objects = list(pods) if pods is not None else [pod for index in range(4) for pod in make_group(index)]
    record = Record()
    record.replace(Kind.SET, [lws if lws is not None else make_set()])
    record.replace(Kind.POD, objects)
    record.replace(Kind.STATEFULSET, others.get("statefulsets", make_children(objects)))
    record.replace(Kind.SERVICE, others.get("services", [make_service()]))
    record.replace(Kind.REVISION, others.get("revisions", [make_revision("old")]))
    record.replace(Kind.EVENT, others.get("events", []))
    record.replace(Kind.LEASE, others.get("leases", [make_lease("manager-0")]))
    return record.view()


def _metadata(name: str, uid: str, owner: str) -> dict[str, Any]:
    references = [{"uid": owner, "controller": True}] if owner else []
    return {
        "name": name,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "ownerReferences": references,
    }
