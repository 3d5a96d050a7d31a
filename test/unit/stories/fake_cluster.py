"""An API server in memory, with its garbage collector.

It has the methods of `lws.runtime.client.connection.Cluster`, and keeps the history of every kind for
streams. Objects are never changed in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lws.kube.metadata import ORPHAN_FINALIZER, annotations_of, controller_of, is_terminating
from lws.kube.patches import is_owned
from lws.leaderworkerset.admission.pod import FormerNode, GangMarks, admit
from lws.runtime.actions import Object, Reference
from lws.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound
from test.unit import api_server
from test.unit.stories.hash_cluster import strategic

NAMESPACE = "default"
NAME = "demo"
_FOREGROUND = "foregroundDeletion"
_GRACE_SECONDS = 30
_START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

Key = tuple[str, str]
"""(kind, name)"""


class FakeCluster:
    """An API server with the objects of one namespace.

    before_write: a function called before each write through the client's methods; it may raise. has_former,
    former_node: what the pod webhook knows about the former group of a new leader, and about the node that a
    pod returns to. gang_marks: by what the pod webhook has pods name their gangs; None without a gang
    scheduler. cordoned: names of nodes that take no pods; all others do.
    """

    def __init__(self, has_feature: bool) -> None:
        self.has_feature = has_feature
        self.objects: dict[Key, dict[str, Any]] = {}
        self.log: defaultdict[str, list[tuple[bool, dict[str, Any]]]] = defaultdict(list)
        """Events by kind, in order: whether the object was deleted, and its state at that moment."""
        self.images: dict[str, str] = {}
        """Images by UID, of every pod that ever existed."""
        self.made_for: dict[str, str] = {}
        """The UID of the last owner of every StatefulSet that ever existed, by UID of the StatefulSet."""
        self.now = _START
        self.set_by = timedelta(0)
        """By how much the clock was set, forwards or back."""
        self.writes = 0
        self.before_write: Callable[[], None] = lambda: None
        self.has_former: Callable[[Object], bool] = lambda pod: False
        self.former_node: Callable[[Object], FormerNode | None] = lambda pod: None
        self.gang_marks: GangMarks | None = None
        self.cordoned: set[str] = set()
        self._version = 100
        self._uids = 0
        self._children: defaultdict[str, set[Key]] = defaultdict(set)
        self._to_collect: set[Key] = set()
        self._living: set[str] = set()

    def copy(self) -> FakeCluster:
        """Return another cluster with the same state."""
        twin = FakeCluster(self.has_feature)
        twin.objects, twin.images = dict(self.objects), dict(self.images)
        twin.made_for, twin.cordoned = dict(self.made_for), set(self.cordoned)
        twin.now, twin.set_by = self.now, self.set_by
        twin._version, twin._uids = self._version, self._uids
        twin._living, twin._to_collect = set(self._living), set(self._to_collect)
        twin._children.update({uid: set(keys) for uid, keys in self._children.items()})
        return twin

    # Methods for everything in this world.

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object as it is stored, or None."""
        return self.objects.get((kind, name))

    def of_kind(self, kind: str) -> Iterator[dict[str, Any]]:
        """Return all objects of a kind."""
        return iter([obj for (its_kind, _), obj in self.objects.items() if its_kind == kind])

    def owned_by(self, uid: str, kind: str = "") -> list[dict[str, Any]]:
        """Return the objects that the owner with `uid` controls."""
        return [self.objects[key] for key in sorted(self._children[uid]) if not kind or key[0] == kind]

    def orphans(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that have no controller."""
        return [obj for obj in self.of_kind(kind) if controller_of(obj) is None]

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and nothing else."""
        self.now += timedelta(seconds=seconds)

    def set_clock(self, by: timedelta) -> None:
        """Set the clock of the control plane, whose times all objects bear, forwards or back."""
        self.now += by
        self.set_by += by

    @property
    def steady(self) -> datetime:
        """The time that a clock shows which nobody sets."""
        return self.now - self.set_by

    def add(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Store a new object. Pods pass the pod webhook first."""
        key = (obj["kind"], obj["metadata"].get("name", ""))
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key} already exists")
        self._uids += 1
        if obj["kind"] == "Pod":
            self._admit(obj)  # type: ignore[arg-type]
        metadata = {
            # Admission of a pod with a generated name sees no name yet.
            "name": f"{obj['metadata'].get('generateName', '')}{self._uids}",
            **obj["metadata"],
            "namespace": NAMESPACE,
            "uid": f"uid-{self._uids}",
            "generation": 1,
            "creationTimestamp": self._timestamp(),
        }
        self._living.add(metadata["uid"])
        if obj["kind"] == "Pod":
            self.images[metadata["uid"]] = obj["spec"]["containers"][0].get("image", "")
        return self._store({**obj, "metadata": metadata})

    def _admit(self, pod: dict[str, Any]) -> None:
        has_former, former = self.has_former(pod), self.former_node(pod)
        # Eight digits of the key are part of a host name.
        unique = f"{self._uids * 2654435761 % 2**32:08x}{self._uids:08x}"
        admit(pod, NAMESPACE, self.gang_marks, unique, former, has_former)

    def change(self, obj: Mapping[str, Any], metadata: Object | None = None, **parts: Any) -> dict[str, Any]:
        """Replace parts of an object. A changed spec increments the generation."""
        stored = self.objects[obj["kind"], obj["metadata"]["name"]]
        changed = {**stored["metadata"], **(metadata or {})}
        if "spec" in parts and parts["spec"] != stored["spec"]:
            changed["generation"] = stored["metadata"]["generation"] + 1
        new_metadata = {field: value for field, value in changed.items() if value is not None}
        return self._store({**stored, **parts, "metadata": new_metadata})

    def end(self, obj: Object) -> None:
        """Remove the object and record the deletion for the streams."""
        key = (obj["kind"], obj["metadata"]["name"])
        stored = self.objects.pop(key)
        self._version += 1
        metadata = {**stored["metadata"], "resourceVersion": str(self._version)}
        self.log[key[0]].append((True, {**stored, "metadata": metadata}))
        self._unlink(key, stored)
        self._living.discard(stored["metadata"]["uid"])
        self._to_collect |= self._children.pop(stored["metadata"]["uid"], set())

    def request_deletion(self, obj: Object, foreground: bool = False) -> dict[str, Any] | None:
        """Delete an object. Return what is left for its kubelet or its dependents; None if it is removed at
        once.
        """
        stored = self.objects[obj["kind"], obj["metadata"]["name"]]
        finalizers = [*stored["metadata"].get("finalizers", ())]
        if foreground and _FOREGROUND not in finalizers:
            finalizers.append(_FOREGROUND)
        waits_for_kubelet = stored["kind"] == "Pod" and "nodeName" in stored["spec"]
        if not finalizers and not waits_for_kubelet:
            self.end(stored)
            return None
        grace = _GRACE_SECONDS if waits_for_kubelet else 0
        marks = {
            # The end of its grace period.
            "deletionTimestamp": stored["metadata"].get("deletionTimestamp", self._timestamp(grace)),
            "deletionGracePeriodSeconds": grace,
            "finalizers": finalizers or None,
        }
        if is_terminating(stored) and marks["finalizers"] == stored["metadata"].get("finalizers"):
            return stored
        return self.change(stored, marks)

    def orphan(self, obj: Object) -> None:
        """Delete an object as `kubectl delete --cascade=orphan` does, the garbage collector included."""
        finalizers = [*obj["metadata"].get("finalizers", ()), ORPHAN_FINALIZER]
        self.request_deletion(self.change(obj, {"finalizers": finalizers}))
        for child in self.owned_by(obj["metadata"]["uid"]):
            self.change(child, {"ownerReferences": None})
        left = self.change(obj, {"finalizers": [it for it in finalizers if it != ORPHAN_FINALIZER] or None})
        if not left["metadata"].get("finalizers") and not left["metadata"].get("deletionGracePeriodSeconds"):
            self.end(left)

    def stopped(self, pod: Object) -> None:
        """End a terminating pod, as its kubelet or, on a lost node, a controller does."""
        if pod["metadata"].get("finalizers"):
            self.change(pod, {"deletionGracePeriodSeconds": 0})
        else:
            self.end(pod)

    def collect(self) -> bool:
        """Play one round of the garbage collector. Return whether it did anything."""
        version, keys = self._version, sorted(self._to_collect)
        for key in keys:
            obj = self.objects.get(key)
            if obj is None:
                self._to_collect.discard(key)
            elif _FOREGROUND in obj["metadata"].get("finalizers", ()):
                self._finalize(obj)
            else:
                self._to_collect.discard(key)
                owner = controller_of(obj)
                # Meanwhile another object may have that name.
                if owner is not None and owner["uid"] not in self._living and not is_terminating(obj):
                    self.request_deletion(obj)
        return self._version != version

    def _finalize(self, obj: dict[str, Any]) -> None:
        dependents = self.owned_by(obj["metadata"]["uid"])
        for dependent in dependents:
            if not is_terminating(dependent):
                self.request_deletion(dependent, foreground=dependent["kind"] == "StatefulSet")
        if dependents:
            return
        others = [finalizer for finalizer in obj["metadata"]["finalizers"] if finalizer != _FOREGROUND]
        if others or obj["metadata"].get("deletionGracePeriodSeconds"):
            self.change(obj, {"finalizers": others or None})
        else:
            self.end(obj)

    def _store(self, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        key = (obj["kind"], obj["metadata"]["name"])
        self._unlink(key, self.objects.get(key))
        self.objects[key] = stored
        self.log[key[0]].append((False, stored))
        owner = controller_of(stored)
        if owner is not None:
            self._children[owner["uid"]].add(key)
            if key[0] == "StatefulSet":
                self.made_for[stored["metadata"]["uid"]] = owner["uid"]
            if owner["uid"] not in self._living:
                self._to_collect.add(key)
        if _FOREGROUND in stored["metadata"].get("finalizers", ()):
            self._to_collect.add(key)
        return stored

    def _unlink(self, key: Key, obj: Object | None) -> None:
        owner = controller_of(obj) if obj is not None else None
        if owner is not None:
            self._children[owner["uid"]].discard(key)

    @property
    def version(self) -> str:
        """The newest resourceVersion."""
        return str(self._version)

    def _timestamp(self, later: float = 0.0) -> str:
        return f"{self.now + timedelta(seconds=later):%Y-%m-%dT%H:%M:%SZ}"

    # Methods for the product.

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        obj = self.find(kind, name)
        if obj is None and kind == "Node":
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            spec = {"unschedulable": name in self.cordoned}
            return {"metadata": {"name": name}, "spec": spec, "status": ready}
        if obj is None:
            raise NotFound(404, "NotFound", f"{kind} {name} not found")
        return obj

    async def list_page(self, resource: Any, query: Object, **_: Any) -> dict[str, Any]:
        return {"items": list(self.of_kind(resource.kind))}

    async def create(self, obj: Object) -> dict[str, Any]:
        self._before()
        _validate(obj)
        return self.add(api_server.stored(dict(obj)))

    async def apply(self, intent: Object, force: bool) -> dict[str, Any]:
        self._before()
        metadata = intent["metadata"]
        stored = self.find(intent["kind"], metadata["name"])
        if metadata.get("uid") and (stored is None or stored["metadata"]["uid"] != metadata["uid"]):
            raise Conflict(409, "Conflict", "another UID")
        if stored is not None and not force:
            raise Conflict(409, "Conflict", "fields belong to somebody else")
        _validate(intent)
        applied = api_server.applied(dict(intent))
        applied["metadata"]["managedFields"][0]["time"] = self._timestamp()
        if self.has_feature and intent["kind"] == "StatefulSet":
            update = intent["spec"]["updateStrategy"]["rollingUpdate"]
            applied["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = update["maxUnavailable"]
        if stored is None:
            return self.add(applied)
        if stored["spec"].get("volumeClaimTemplates") != applied["spec"].get("volumeClaimTemplates"):
            raise Invalid(422, "Invalid", "spec: Forbidden: updates to statefulset spec for other fields")
        preserved = {key: stored["metadata"][key] for key in ("uid", "generation", "creationTimestamp")}
        annotations = annotations_of(stored) | annotations_of(applied)
        if "paused" in stored["spec"] and not is_owned(stored, "lws", ("spec", "paused")):
            # A field of another manager: an apply keeps it.
            applied["spec"]["paused"] = stored["spec"]["paused"]
        return self.change(
            stored, {**applied["metadata"], **preserved, "annotations": annotations}, spec=applied["spec"]
        )

    async def merge(
        self, target: Reference, patch: Object, subresource: str = "", is_strategic: bool = False
    ) -> dict[str, Any]:
        self._before()
        stored = self._named(target)
        if is_strategic:
            merged = strategic(stored, patch)
            return self.change(
                stored, merged["metadata"], **{part: merged[part] for part in patch.keys() - {"metadata"}}
            )
        metadata = {**stored["metadata"]}
        expected = patch.get("metadata", {}).get("resourceVersion")
        if expected not in (None, metadata["resourceVersion"]):
            raise Conflict(409, "Conflict", f"{target} was changed meanwhile")
        for field, value in patch.get("metadata", {}).items():
            metadata[field] = _merged(metadata.get(field), value)
        parts = {
            part: _merged(stored.get(part), value) for part, value in patch.items() if part != "metadata"
        }
        result = self.change(stored, metadata, **parts)
        is_released = stored["metadata"].get("finalizers") and not result["metadata"].get("finalizers")
        if (
            is_released
            and is_terminating(result)
            and not result["metadata"].get("deletionGracePeriodSeconds")
        ):
            self.end(result)
        return result

    async def delete(
        self, target: Reference, propagation: str, grace_seconds: int | None = None, version: str = ""
    ) -> dict[str, Any]:
        self._before()
        stored = self._named(target)
        if version not in ("", stored["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", f"{target} was changed meanwhile")
        remains = self.request_deletion(stored, propagation == "Foreground")
        if remains is None and target.kind == "Pod":
            # The API server returns the last state of a pod that is gone, and of nothing else.
            return self.log["Pod"][-1][1]
        return remains or {"kind": "Status", "metadata": {}}

    def _before(self) -> None:
        self.before_write()
        self.writes += 1

    def _named(self, target: Reference) -> dict[str, Any]:
        stored = self.find(target.kind, target.name)
        if stored is None:
            raise NotFound(404, "NotFound", f"{target} not found")
        if target.uid and stored["metadata"]["uid"] != target.uid:
            raise Conflict(409, "Conflict", f"{target} has another UID")
        return stored


def _validate(obj: Object) -> None:
    """Apply the validation rules that a set can break in these tests; an API server has thousands."""
    if obj["kind"] == "StatefulSet" and not (obj["spec"]["template"].get("spec") or {}).get("containers"):
        raise Invalid(422, "Invalid", "spec.template.spec.containers: Required value")
    if obj["kind"] == "Deployment":
        rolling = obj["spec"]["strategy"]["rollingUpdate"]
        if all(str(amount).rstrip("%") == "0" for amount in rolling.values()):
            why = "may not be 0 when `maxSurge` is 0"
            raise Invalid(422, "Invalid", f"spec.strategy.rollingUpdate.maxUnavailable: {why}")


def _merged(stored: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    base = stored if isinstance(stored, Mapping) else {}
    merged = {**base, **{field: _merged(base.get(field), value) for field, value in patch.items()}}
    return {field: value for field, value in merged.items() if value is not None}
