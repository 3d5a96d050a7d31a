"""Read every write to the objects of a namespace, with its author, from the audit log.

The log is the one of a local cluster with `AUDIT_CHAOS`; entries are in the order in which they took effect.
An API server that is killed may have made a write without logging it. So the test takes a snapshot after each
kill, dated before the first write that was logged again; from then on, the snapshot counts as the truth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from test.harness.world import World

Object = dict[str, Any]

PODS, STATEFULSETS, SETS, LEASES = "pods", "statefulsets", "leaderworkersets", "leases"
DISAGGREGATED_SETS, REVISIONS = "disaggregatedsets", "controllerrevisions"
KINDS = {
    PODS: "Pod",
    STATEFULSETS: "StatefulSet",
    SETS: "LeaderWorkerSet",
    DISAGGREGATED_SETS: "DisaggregatedSet",
    REVISIONS: "ControllerRevision",
}
"""The resources of the objects that are recorded."""
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_WRITES = ("create", "update", "patch", "delete")

AUDIT_CHAOS: Mapping[str, object] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {
            "level": "RequestResponse",
            "resources": [
                {"group": "", "resources": ["pods", "pods/status"]},
                {"group": "apps", "resources": ["statefulsets", "statefulsets/status", REVISIONS]},
                {"group": "leaderworkerset.x-k8s.io"},
                {"group": "disaggregatedset.x-k8s.io"},
            ],
        },
        # Other Leases belong to nodes.
        {
            "level": "RequestResponse",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
            "namespaces": ["lws-system"],
        },
        {"level": "Metadata"},
    ],
}
"""Writes with their results, and nothing else."""


@dataclass(frozen=True)
class Entry:
    """One answered write. at: the time of its arrival. credential: distinguishes bearers of one account."""

    at: datetime
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    user: str
    credential: str = ""
    answer: Object = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.code < 300


@dataclass(frozen=True)
class Change:
    """The result for one object, or a snapshot of all objects of a kind.

    version: its position in the order.
    """

    version: int
    entry: Entry
    objects: Mapping[str, Object | None]
    is_snapshot: bool = False


class Record:
    """Everything that happens in one namespace from the creation of this object on."""

    def __init__(self, world: World, audit_log: Path) -> None:
        self._world = world
        self._log = audit_log
        self._began = audit_log.stat().st_size
        self._snapshots: list[Change] = []
        self.snapshot()

    def position(self) -> int:
        """Return the current end of the log."""
        return self._log.stat().st_size

    def snapshot(self, since: int | None = None) -> None:
        """Record all existing objects, read from etcd and not from a cache.

        since: the position in the log before the API server or etcd came back. If other clients have written
        since, the objects are read in their state before that.
        """
        logged = () if since is None else changes_of(self._here(entries_of(self._log, since)))
        # Answers to some deletions have no version.
        first = min((change.version for change in logged if change.version), default=None)
        query = "" if first is None else f"?resourceVersion={first - 1}&resourceVersionMatch=Exact"
        for resource, kind in KINDS.items():
            response = self._world.api.get(self._world.path(kind) + query)
            entry = Entry(datetime.now(UTC), "list", resource, self._world.namespace, "", 200, "the test")
            items = {item["metadata"]["name"]: item for item in response["items"]}
            version = int(response["metadata"]["resourceVersion"])
            self._snapshots.append(Change(version, entry, items, is_snapshot=True))

    def entries(self) -> list[Entry]:
        """Return all answered writes of all clients to all objects."""
        return list(entries_of(self._log, self._began))

    def changes(self) -> list[Change]:
        """Return the changes of objects of the namespace, in the order of etcd."""
        return ordered([*self._snapshots, *changes_of(self._here(self.entries()))])

    def _here(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        return (entry for entry in entries if entry.namespace == self._world.namespace)


def entries_of(log: Path, began: int = 0) -> Iterator[Entry]:
    """Yield the writes in an audit log from an offset on."""
    with log.open("rb") as lines:
        lines.seek(began)
        for line in lines:
            # The last line may be incomplete, and so may another one, if the API server was killed.
            if not line.endswith(b"\n"):
                return
            try:
                logged = json.loads(line)
            except ValueError:
                continue
            if logged["verb"] in _WRITES and "dryRun" not in logged["requestURI"]:
                yield _entry(logged)


def changes_of(entries: Iterable[Entry]) -> Iterator[Change]:
    """Yield the changes of recorded objects by these writes, in the order of the answers."""
    newest, seen = 0, set()
    for entry in entries:
        if not entry.is_done or entry.resource not in KINDS:
            continue
        metadata = entry.answer.get("metadata") or {}
        # The answer for a deleted StatefulSet is only a status; for a bound pod, it lacks even the name.
        if "resourceVersion" not in metadata and entry.verb != "delete":
            continue
        version, is_gone = int(metadata.get("resourceVersion", 0)), _is_gone(entry)
        if entry.verb == "delete" and not is_gone and (metadata["uid"], version) in seen:
            # Another write was slightly faster, so the shown state was never stored.
            continue
        seen.add((metadata.get("uid"), version))
        newest = max(newest, version)
        # The last state of an object may be as old as the one stored before.
        yield Change(newest if is_gone else version, entry, {entry.name: None if is_gone else entry.answer})


def ordered(changes: list[Change]) -> list[Change]:
    """Return the changes by version, without those older than the first snapshot."""
    snapshots = [change.version for change in changes if change.is_snapshot]
    first = min(snapshots, default=0)
    return sorted(
        (change for change in changes if change.version >= first), key=lambda change: change.version
    )


def _is_gone(entry: Entry) -> bool:
    """Report whether this write removed the object: it has no finalizers and no grace period left."""
    metadata = entry.answer.get("metadata") or {}
    if metadata.get("finalizers"):
        return False
    is_going = entry.verb == "delete" or "deletionTimestamp" in metadata
    return is_going and not metadata.get("deletionGracePeriodSeconds")


def _entry(logged: Object) -> Entry:
    target, user = logged.get("objectRef") or {}, logged["user"]
    answer = logged.get("responseObject") or {}
    is_object = answer.get("kind") != "Status"
    named = (answer.get("metadata") or {}).get("name", "") if is_object else ""
    carried = (user.get("extra") or {}).get(_CREDENTIAL) or ("",)
    return Entry(
        at=datetime.fromisoformat(logged["requestReceivedTimestamp"]),
        verb=logged["verb"],
        resource=target.get("resource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name") or named,
        code=(logged.get("responseStatus") or {}).get("code", 0),
        user=user["username"],
        credential=carried[0],
        answer=answer if is_object else {},
    )
