"""A set with Hash groups between our passes and a model of the other controllers.

The model covers Deployment, ReplicaSet, StatefulSet, garbage collector, scheduler and kubelet. Pods go
through the real pod webhook. The model has no time: `turn` lets every controller do one thing.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, cast

from lws.kube.metadata import controller_of, is_controlled_by, labels_of, name_of, owner_reference, uid_of
from lws.kube.ownership import owners_without
from lws.kube.patches import is_owned, with_merged
from lws.leaderworkerset.admission.pod import admit
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.pod_identity import is_leader
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Plan, Reference, SetFinalizer, SetOwner
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from test.unit import api_server
from test.unit.builders import NOW
from test.unit.stories.deployment_sync import sizes_after

Object = dict[str, Any]
_TURNS_TO_END = 2
_KEYS = {"conditions": "type", "schedulingGates": "name"}


class HashCluster:
    """One set and everything that belongs to it.

    failing: images whose pods never become ready. crashing: images whose workers restart. is_lost: whether
    the manager ends before it executes this action.

    is_namespace_ending: whether the namespace is being deleted, its pods before everything else. uniques: the
    texts that the keys of the next groups are made from; arbitrary by default. tallies: increments of metrics
    by their label, or their word without one. most_groups: the largest
    number of groups with a node at the same time, terminating ones included, since its last reset.
    """

    def __init__(self, lws: Object) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.failing: set[str] = set()
        self.crashing: set[str] = set()
        self.is_lost: Callable[[Action], bool] = lambda action: False
        self.now, self.set_by = NOW, timedelta(0)
        self.is_namespace_ending = False
        self.events: list[str] = []
        self.tallies: Counter[str] = Counter()
        self.writes = 0
        self.most_groups = 0
        self.uniques: Iterator[str] = iter(())
        self._ending: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._store = Store(lambda before, after: None, TABLES)
        self._memory = SetWrites(self._store, lambda: (self.now - self.set_by).timestamp())
        self._observer = Observer(cast(Cluster, self), self._store, self._memory)
        self.name = lws["metadata"]["name"]
        self.put(lws)

    # --- The API server

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f"{kind} {name}")
        return self.objects[kind, name]

    async def list_page(self, resource: Any, *_: Any, **__: Any) -> Object:
        if resource.kind == "Namespace":
            deletion = {"deletionTimestamp": "2026-03-01T12:00:00Z"} if self.is_namespace_ending else {}
            return {"items": [{"metadata": {"name": "default", **deletion}}]}
        return {"items": [obj for (kind, _), obj in self.objects.items() if kind == "ControllerRevision"]}

    def put(self, obj: Object) -> Object:
        """Store an object and deliver it to the manager."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(1000 + next(self._numbers))
        metadata.setdefault("uid", f"uid-{next(self._numbers)}")
        metadata.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.objects[obj["kind"], metadata["name"]] = obj
        self._store.put(copy.deepcopy(obj))
        return obj

    def drop(self, obj: Object) -> None:
        self.objects.pop((obj["kind"], obj["metadata"]["name"]))
        obj["metadata"]["resourceVersion"] = str(1000 + next(self._numbers))
        self._store.drop(obj)
        self._observer.members.forget(obj)
        self._memory.forget(obj)

    def change(self, kind: str, name: str, patch: Object) -> None:
        before = self.objects[kind, name]
        after = with_merged(before, patch)
        if after.get("spec") != before.get("spec"):
            after["metadata"] = {
                **after["metadata"],
                "generation": before["metadata"].get("generation", 1) + 1,
            }
        self.put(after)

    def edit(self, **spec: Any) -> None:
        """Change the spec of the set, as a user does."""
        self.change("LeaderWorkerSet", self.name, {"spec": spec})

    def delete(self, obj: Object, is_foreground: bool = False) -> None:
        if "deletionTimestamp" in obj["metadata"]:
            return
        if is_foreground or obj["kind"] == "Pod":
            finalizers = [*obj["metadata"].get("finalizers", ()), *["foregroundDeletion"] * is_foreground]
            moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            self.put(with_merged(obj, {"metadata": {"deletionTimestamp": moment, "finalizers": finalizers}}))
        else:
            self.drop(obj)

    def orphan(self, obj: Object) -> None:
        """Delete an object without its dependents."""
        self.drop(obj)
        for child in list(self.objects.values()):
            if (controller_of(child) or {}).get("uid") == uid_of(obj):
                self.change(child["kind"], child["metadata"]["name"], {"metadata": {"ownerReferences": None}})

    def end(self, pod: Object, phase: str) -> None:
        """End all containers of the pod."""
        self.change("Pod", pod["metadata"]["name"], {"status": {"phase": phase, "conditions": []}})

    def stay(self, pod: Object, turns: int) -> None:
        """Let the pod take this many turns to terminate."""
        self._ending[uid_of(pod)] = turns

    # --- Our passes

    async def observed(self) -> SetSnapshot:
        """Return what a pass over the set would observe."""
        snapshot = await self._observer.observe_set("default", self.name, self.now)
        assert snapshot is not None
        return snapshot

    async def observed_group(self, leader: Object) -> Any:
        """Return what a pass over the group would observe."""
        return await self._observer.observe_group("default", name_of(leader), self.now)

    async def passes(self) -> None:
        """Run one pass over the set and one over each group."""
        snapshot = await self._observer.observe_set("default", self.name, self.now)
        if snapshot is not None:
            self._carry_out(self._memory.due(plan_set(snapshot)))
        workers = [pod for pod in self._all("Pod") if is_kept(pod) and not is_leader(pod)]
        hosts = {owner["name"] for pod in workers if (owner := controller_of(pod)) is not None}
        hosts |= {name_of(workers) for workers in self._all("StatefulSet") if controller_of(workers) is None}
        for name in (*(name_of(pod) for pod in self.leaders()), *sorted(hosts)):
            group = await self._observer.observe_group("default", name, self.now)
            if group is not None:
                self._carry_out(plan_group(group))

    def _carry_out(self, planned: Plan) -> None:
        for sequence in planned.sequences:
            for action in sequence:
                if self.is_lost(action) or self._is_overtaken(action):
                    break
                self.writes += 1
                self._do(action)
                self.events += [announce.reason for announce in action.announce]
                if isinstance(action, Apply | Delete):
                    self.tallies.update(tally.label or tally.word for tally in action.tallies)
        for status in planned.statuses:
            self.writes += 1
            self._status(status.target, status.patch)
        self.events += [announce.reason for announce in planned.announce]

    def _is_overtaken(self, action: Action) -> bool:
        """Return whether the API server has a later version of the object than the action expects."""
        if not isinstance(action, Merge):
            return False
        version = (action.patch.get("metadata") or {}).get("resourceVersion")
        stored = self.objects[action.target.kind, action.target.name]
        return version is not None and version != stored["metadata"]["resourceVersion"]

    def _status(self, target: Reference, patch: Any) -> None:
        self.put(with_merged(self.objects[target.kind, target.name], {"status": patch}))

    def _do(self, action: Action) -> None:
        match action:
            case Apply(intent=intent):
                stored = self.objects.get((intent["kind"], intent["metadata"]["name"]))
                uid = uid_of(stored) if stored is not None else f"uid-{next(self._numbers)}"
                result = api_server.applied(dict(intent), uid)
                if stored is not None:
                    if "paused" in stored["spec"] and not is_owned(stored, "lws", ("spec", "paused")):
                        # A field of another manager: an apply keeps it.
                        result["spec"]["paused"] = stored["spec"]["paused"]
                    result["metadata"]["generation"] = stored["metadata"]["generation"] + (
                        result["spec"] != stored["spec"]
                    )
                    result["status"] = stored.get("status", {})
                self.put(result)
            case Create(intent=intent):
                result = api_server.stored(dict(intent), f"uid-{next(self._numbers)}")
                result["metadata"]["generation"] = 1
                self.put(result)
            case Merge(target=target, subresource="status", is_strategic=False):
                self._status(target, action.patch["status"])
            case Merge(target=target):
                stored = self.objects[target.kind, target.name]
                merge = strategic if action.is_strategic else with_merged
                self.put(merge(stored, action.patch))
            case Delete(target=target):
                if (obj := self.objects.get((target.kind, target.name))) is not None:
                    assert uid_of(obj) == target.uid
                    self.delete(obj, action.propagation == "Foreground")
            case SetFinalizer(target=target, finalizer=finalizer, is_there=is_there, patch=patch):
                stored = with_merged(self.objects[target.kind, target.name], patch)
                self._set_finalizer(stored, finalizer, is_there)
            case SetOwner(target=target, owner=owner, is_owner=is_owner, patch=patch):
                stored = with_merged(self.objects[target.kind, target.name], patch)
                others = owners_without(stored, owner)
                owners = [*others, dict(owner)] if is_owner else [*others]
                self.put(with_merged(stored, {"metadata": {"ownerReferences": owners}}))

    def _set_finalizer(self, obj: Object, finalizer: str, is_there: bool) -> None:
        others = [existing for existing in obj["metadata"].get("finalizers", ()) if existing != finalizer]
        self.put(with_merged(obj, {"metadata": {"finalizers": [*others, *[finalizer] * is_there]}}))

    # --- All other controllers

    def leaders(self, live: bool = False) -> list[Object]:
        pods = [pod for pod in self._all("Pod") if labels_of(pod).get(WORKER_INDEX_LABEL) == "0"]
        return [pod for pod in pods if not (live and "deletionTimestamp" in pod["metadata"])]

    def gated(self) -> list[Object]:
        return [pod for pod in self.leaders() if gates_of(pod)]

    def pods_of(self, leader: Object) -> list[Object]:
        key = labels_of(leader)[GROUP_INDEX_LABEL]
        return [pod for pod in self._all("Pod") if labels_of(pod).get(GROUP_INDEX_LABEL) == key]

    @property
    def lws(self) -> Object:
        return self.objects["LeaderWorkerSet", self.name]

    def _all(self, kind: str) -> list[Object]:
        return [obj for (of_kind, _), obj in sorted(self.objects.items()) if of_kind == kind]

    def set_clock(self, by: timedelta) -> None:
        """Set the clock of the control plane, whose times all objects bear, forwards or back."""
        self.now += by
        self.set_by += by

    async def turn(self, seconds: float = 1.0, with_manager: bool = True) -> None:
        """Let every controller act once."""
        self.now += timedelta(seconds=seconds)
        if with_manager:
            await self.passes()
        self._deployment()
        for statefulset in self._all("StatefulSet"):
            self._statefulset(statefulset)
        for pod in self._all("Pod"):
            self._kubelet(pod)
        self._collect()
        holding = {labels_of(pod).get(GROUP_INDEX_LABEL) for pod in self._all("Pod") if not gates_of(pod)}
        self.most_groups = max(self.most_groups, len(holding))

    async def settle(self, turns: int = 200, seconds: float = 20.0, with_manager: bool = True) -> None:
        """Play until a turn changes nothing. Raises AssertionError if that never happens."""
        for _ in range(turns):
            before = self._state()
            await self.turn(seconds, with_manager)
            if before == self._state():
                return
        raise AssertionError(f"not settled after {turns} turns")

    def _state(self) -> Any:
        ending = {uid: count for uid, count in self._ending.items() if count >= 0}
        return ending, {key: _news(obj) for key, obj in self.objects.items()}

    def _deployment(self) -> None:
        deployment = self.objects.get(("Deployment", self.name))
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return
        for orphan in self._all("ReplicaSet"):
            if controller_of(orphan) is None:
                adopted = {"metadata": {"ownerReferences": [owner_reference(deployment)]}}
                self.change("ReplicaSet", orphan["metadata"]["name"], adopted)
        spec, key = deployment["spec"], labels_of(deployment["spec"]["template"])[REVISION_LABEL]
        own = [
            replica_set
            for replica_set in self._all("ReplicaSet")
            if is_controlled_by(replica_set, uid_of(deployment))
        ]
        if not spec.get("paused") and not any(
            labels_of(replica_set)[REVISION_LABEL] == key for replica_set in own
        ):
            # The ReplicaSet of a lost Deployment may still have the plain name.
            name = f"{self.name}-{key[:6]}{next(self._numbers)}"
            own.append(
                self.put(
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "metadata": {
                            "name": name,
                            "namespace": "default",
                            "generation": 1,
                            "labels": dict(labels_of(spec["template"])),
                            "ownerReferences": [owner_reference(deployment)],
                        },
                        "spec": {"replicas": 0, "template": spec["template"]},
                    }
                )
            )
        self._scale(spec, key, own)
        for replica_set in own:
            self._replica_set(self.objects["ReplicaSet", replica_set["metadata"]["name"]])
        pods = [pod for replica_set in own for pod in self._pods(replica_set)]
        new = [pod for pod in pods if labels_of(pod)[REVISION_LABEL] == key]
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(new),
            "readyReplicas": sum(map(is_ready, pods)),
        }
        if status != deployment.get("status"):
            self.put({**deployment, "status": status})

    def _scale(self, spec: Object, key: str, replica_sets: list[Object]) -> None:
        sets = {obj["metadata"]["name"]: obj for obj in replica_sets}
        newest = next((name for name, obj in sets.items() if labels_of(obj)[REVISION_LABEL] == key), "")
        counts = sizes_after(
            spec,
            newest,
            {name: obj["spec"]["replicas"] for name, obj in sets.items()},
            {name: sum(map(is_ready, self._pods(obj))) for name, obj in sets.items()},
        )
        for name, count in counts.items():
            if sets[name]["spec"]["replicas"] != count:
                self.change("ReplicaSet", name, {"spec": {"replicas": count}})

    def _pods(self, owner: Object) -> list[Object]:
        return [
            pod
            for pod in self._all("Pod")
            if (controller_of(pod) or {}).get("uid") == uid_of(owner)
            and "deletionTimestamp" not in pod["metadata"]
            and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
        ]

    def _replica_set(self, replica_set: Object) -> None:
        pods = self._pods(replica_set)
        missing = replica_set["spec"]["replicas"] - len(pods)
        for _ in range(missing):
            number, template = next(self._numbers), replica_set["spec"]["template"]
            pod: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **copy.deepcopy(template["metadata"]),
                    "generateName": f"{replica_set['metadata']['name']}-",
                    "ownerReferences": [owner_reference(replica_set)],
                },
                "spec": copy.deepcopy(template["spec"]),
            }
            admit(pod, "default", unique=next(self.uniques, f"unique-{number}"))
            if gates_of(pod):
                gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                pod["status"] = {"conditions": [gated]}
            pod["metadata"] |= {
                "name": f"{pod['metadata']['generateName']}{number}",
                "namespace": "default",
            }
            self.put(pod)
        order = sorted(pods, key=lambda pod: (not gates_of(pod), is_ready(pod), _cost(pod), -_age(pod)))
        for pod in order[: max(0, -missing)]:
            self.delete(pod)

    def _statefulset(self, statefulset: Object) -> None:
        metadata, spec = statefulset["metadata"], statefulset["spec"]
        if "deletionTimestamp" in metadata:
            return
        pods = {pod["metadata"]["name"]: pod for pod in self._pods(statefulset)}
        for index in range(1, spec["replicas"] + 1):
            name = f"{metadata['name']}-{index}"
            if ("Pod", name) in self.objects:
                continue
            worker = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **copy.deepcopy(spec["template"]["metadata"]),
                    "name": name,
                    "namespace": "default",
                    "ownerReferences": [owner_reference(statefulset)],
                },
                "spec": {**copy.deepcopy(spec["template"]["spec"]), "hostname": name, "subdomain": self.name},
            }
            admit(worker, "default")
            self.put(worker)
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": len(pods),
            "availableReplicas": sum(map(is_ready, pods.values())),
            "currentRevision": metadata["name"],
            "updateRevision": metadata["name"],
        }
        if status != statefulset.get("status"):
            self.put({**statefulset, "status": status})

    def _kubelet(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            turns = self._ending.setdefault(uid_of(pod), _TURNS_TO_END)
            self._ending[uid_of(pod)] = turns - 1
            if turns <= 0 and not pod["metadata"].get("finalizers"):
                self.drop(pod)
            return
        status = pod.get("status") or {}
        if gates_of(pod) or status.get("phase") in ("Failed", "Succeeded"):
            return
        is_true = {
            condition["type"]: condition["status"] == "True" for condition in status.get("conditions", ())
        }
        gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()}
        runs = not {container["image"] for container in pod["spec"]["containers"]} & self.failing
        conditions = [
            {"type": "ContainersReady", "status": str(runs)},
            {"type": "Ready", "status": str(runs and all(is_true.get(gate) for gate in gates))},
        ]
        if not is_true.get("PodScheduled", True):
            moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            scheduled = {"type": "PodScheduled", "status": "True", "reason": "", "lastTransitionTime": moment}
            conditions.append(scheduled)
        patch = {"status": {"phase": "Running", "conditions": conditions}}
        if labels_of(pod).get(WORKER_INDEX_LABEL) != "0" and (
            {container["image"] for container in pod["spec"]["containers"]} & self.crashing
        ):
            restarted = {"name": "main", "restartCount": 1, "state": {"running": {}}}
            patch["status"]["containerStatuses"] = [restarted]
        after = strategic(pod, {**patch, "spec": {"nodeName": "node"}})
        if after != pod:
            self.put(after)

    def _collect(self) -> None:
        uids = {uid_of(obj) for obj in self.objects.values()}
        for obj in list(self.objects.values()):
            owner = controller_of(obj)
            if owner is not None and owner["uid"] not in uids:
                self.delete(obj)
        for obj in list(self.objects.values()):
            if "foregroundDeletion" in (obj["metadata"].get("finalizers") or ()):
                self._collect_below(obj)

    def _collect_below(self, owner: Object) -> None:
        below = [
            obj for obj in self.objects.values() if (controller_of(obj) or {}).get("uid") == uid_of(owner)
        ]
        for obj in below:
            self.delete(obj, is_foreground=obj["kind"] == "StatefulSet")
        if not below:
            if owner["kind"] == "Pod":
                self._set_finalizer(owner, "foregroundDeletion", is_there=False)
            else:
                self.drop(owner)


def strategic(stored: Any, patch: Any, name: str = "") -> Any:
    """Return the object after a strategic merge patch."""
    if isinstance(patch, dict):
        after = dict(stored) if isinstance(stored, dict) else {}
        for key, value in patch.items():
            if value is None:
                after.pop(key, None)
            else:
                after[key] = strategic(after.get(key), value, key)
        return after
    if isinstance(patch, list) and (by := _KEYS.get(name)):
        merged = {item[by]: item for item in stored or ()}
        for item in patch:
            if item.get("$patch") == "delete":
                merged.pop(item[by], None)
            else:
                merged[item[by]] = {**merged.get(item[by], {}), **item}
        return list(merged.values())
    return patch


def _news(obj: Object) -> Any:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return copy.deepcopy({**obj, "metadata": metadata})


def gates_of(pod: Object) -> list[Object]:
    return [
        gate for gate in pod["spec"].get("schedulingGates") or () if gate["name"] == GROUP_REPLACEMENT_GATE
    ]


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _cost(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(DELETION_COST_ANNOTATION, 0))


def _age(pod: Object) -> int:
    return int(pod["metadata"]["uid"].rpartition("-")[2])


def names(objects: Iterable[Object]) -> Iterator[str]:
    return (obj["metadata"]["name"] for obj in objects)


def of_set(world: HashCluster) -> str:
    return labels_of(world.leaders()[0])[NAME_LABEL]
