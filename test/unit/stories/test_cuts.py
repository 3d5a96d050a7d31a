"""Tests that a cut between any two writes changes nothing about what becomes of a set, counts included.

Each chapter of a story is played once uncut. Then it is played once for each of its writes and each kind of
cut: the process ends after the write, or the API server rejects it or does not answer. Every object, every
count and the number of groups created must be as in the uncut run. By default the kinds of cuts take turns;
with HYPOTHESIS_PROFILE=nightly every write gets all of them.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pytest

from lws.disaggregatedset.registration import REGISTRATION
from lws.kube.metadata import annotations_of, is_terminating, labels_of, name_of, uid_of, without
from lws.leaderworkerset.group_records import DELETING, KEPT, recorded_members
from lws.leaderworkerset.restart_counts import count_key, counts_in, is_exhausted
from lws.leaderworkerset.revisions import history, reading
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Action, Reference, target_of
from lws.runtime.errors import ApiError, ClusterError, Conflict, Throttled, Unreachable
from lws_api.disaggregatedset.v1 import KIND as PAIR
from lws_api.disaggregatedset.v1 import SCALER_KIND
from lws_api.leaderworkerset.v1 import (
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    KIND,
    RECOVER_ANNOTATION,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_pod_template, make_set
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.fake_manager import FakeManager
from test.unit.stories.fake_nodes import FakeNodes
from test.unit.stories.hash_cluster import HashCluster, gates_of, is_ready

Object = dict[str, Any]
_ALL = REGISTRATIONS if REGISTRATION in REGISTRATIONS else (*REGISTRATIONS, REGISTRATION)
_IS_NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
_MOST_ROUNDS = 400
_RINGS = 3
"""Delayed passes in a row that change nothing, after which a set counts as at rest."""
_COUNTING = {"RecreateGroup", "ReplicaRestartBudgetExceeded", "GroupFailed", "RolloutCompleted"}
"""Reasons of Events that are announced once for each incident or rollout."""


# --- A cluster that is played to rest


@dataclass(frozen=True)
class Moment:
    """The cluster right after a write, with the pods created and the Events announced so far.

    write: the write in words.
    """

    write: str
    cluster: FakeCluster
    created: frozenset[tuple[str, str]]
    events: Counter[str]


@dataclass(frozen=True)
class Fault:
    """What happens at one write instead of a response: `error`. is_applied: whether the API server carries
    the write out all the same.
    """

    error: ClusterError
    is_applied: bool = False


class Play:
    """Everything that acts on the objects of a cluster, beginning with a manager that has just started.

    fault: what happens at the write with the number `index`; None if nothing does.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cluster: FakeCluster,
        fault: Fault | None = None,
        index: int = -1,
    ) -> None:
        self.cluster, self.nodes = cluster, FakeNodes(cluster)
        self.moments: list[Moment] = []
        self.created: frozenset[tuple[str, str]] = frozenset()
        self.events = Counter[str]()
        self._former = {uid_of(pod) for pod in cluster.of_kind("Pod")}
        self._fault, self._index, self._count = fault, index, 0
        for verb in ("create", "apply", "merge", "delete"):
            setattr(cluster, verb, self._recorded(verb, getattr(cluster, verb)))
        cluster.has_former = lambda pod: self.manager.has_former(pod)
        cluster.former_node = lambda pod: self.manager.former_node(pod)
        self._loop = loop
        self.take_over()

    def take_over(self) -> None:
        """Replace the manager process."""
        self.manager = FakeManager(self.cluster, self._loop, lambda *_: None, _ALL)

    @classmethod
    def after(cls, loop: asyncio.AbstractEventLoop, moment: Moment, is_away: bool) -> Play:
        """Continue with another manager after the former one has ended at this moment.

        is_away: whether no manager acts until everything else is at rest.
        """
        play = cls(loop, moment.cluster.copy())
        play.created, play.events = moment.created, Counter(moment.events)
        if is_away:
            play.wait()
        play.manager.resync()
        return play

    def wait(self) -> None:
        """Let everything else come to rest without passes. Webhooks are answered from a current store."""
        while self._others():
            self._read()

    def _recorded(self, verb: str, write: Any) -> Any:
        async def written(target: Any, *arguments: Any, **more: Any) -> Any:
            fault = self._fault if self._count == self._index else None
            self._count += 1
            if fault is not None and not fault.is_applied:
                raise fault.error
            answer = await write(target, *arguments, **more)
            if fault is not None:
                raise fault.error
            if self._fault is None:
                reference = target if isinstance(target, Reference) else Reference.to(target)
                subresource = " status" if more.get("subresource") else ""
                self._see()
                text = f"{verb} {reference.kind} {reference.name}{subresource}"
                self.moments.append(Moment(text, self.cluster.copy(), self.created, Counter(self.events)))
            return answer

        return written

    def _see(self) -> None:
        """Note the Events and the pods that are new."""
        announced = self.manager.recorder.announced
        self.events.update(event.reason for event in announced if event.reason in _COUNTING)
        announced.clear()
        created = [pod for _, pod in self.cluster.log["Pod"] if uid_of(pod) not in self._former]
        self.created |= {
            # A worker may be replaced alone, once or more, before its group is.
            (name_of(pod), uid_of(pod) if labels_of(pod).get(WORKER_INDEX_LABEL) == "0" else "")
            for pod in created
        }

    def settle(self) -> None:
        """Play until nothing changes any more, delayed passes included."""
        rings = 0
        for _ in range(_MOST_ROUNDS):
            version = self.cluster.version
            while self.manager.late or self.manager.queue.keys:
                self._read()
                self.manager.run_pass()
            self._others()
            if version != self.cluster.version:
                rings = 0
            elif rings < _RINGS and self.manager.ring():
                rings += 1
            else:
                return
        raise AssertionError("it does not come to rest")

    def _read(self) -> None:
        for kind in self.manager.late:
            self.manager.read(kind)

    def _others(self) -> bool:
        """Let every other controller and node act once. Return whether one did anything."""
        version = self.cluster.version
        self.nodes.sync_all()
        self.cluster.collect()
        for move in self.nodes.moves():
            move()
        self.cluster.pass_time(1.0)
        return version != self.cluster.version

    def get(self, kind: str = KIND, name: str = NAME) -> Object:
        return self.cluster.objects[kind, name]

    def edit(self, kind: str = KIND, name: str = NAME, **spec: Any) -> None:
        """Change fields of a spec; a field is merged if it is a mapping."""
        obj = self.get(kind, name)
        self.cluster.change(obj, spec=_merged(obj["spec"], spec))

    def outcome(self) -> Object:
        """Return everything that has to be the same after a cut."""
        self._see()
        objects = self.cluster.objects
        return {
            **{" ".join(key): _canonical(obj, objects) for key, obj in sorted(objects.items())},
            "pods created": dict(Counter(name for name, _ in self.created)),
        }


def _merged(before: Any, after: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    return {**before, **{key: _merged(before.get(key), value) for key, value in after.items()}}


_OF_SERVER = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_UID = re.compile(r"uid-\d+")
_RESTARTS = re.compile(r"(\d+\.\d+)\.\d+(\..*)")


def _canonical(obj: Object, objects: Mapping[tuple[str, str], Object]) -> Any:
    """Return an object without what differs between two runs: UIDs, versions and times."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OF_SERVER}
    metadata["ownerReferences"] = [
        f"{owner['kind']} {owner['name']} {_is(owner, objects)}"
        for owner in metadata.get("ownerReferences", ())
    ]
    if GROUP_RESTARTS_COUNTED_FOR_ANNOTATION in metadata.get("annotations", {}):
        # Hashes of UIDs.
        metadata["annotations"] = without(metadata["annotations"], {GROUP_RESTARTS_COUNTED_FOR_ANNOTATION})
    status, spec = dict(obj.get("status") or {}), obj.get("spec")
    if obj["kind"] == "Pod":
        spec = {field: value for field, value in obj["spec"].items() if value != []}
    elif obj["kind"] == "StatefulSet":
        # A copy from the set as it was when the StatefulSet was last written.
        annotations = metadata.get("annotations", {}).items()
        metadata["annotations"] = {
            name: value for name, value in annotations if name != GROUP_RESTART_COUNTS_ANNOTATION
        }
        # Its controller reports no more on a terminating StatefulSet.
        status = {} if is_terminating(obj) else status
    # Whether a condition that is false was ever true, and when there was progress, depends on passes.
    status.pop("lastProgressTime", None)
    if "conditions" in status:
        status["conditions"] = [each for each in status["conditions"] if each["status"] != "False"]
    if "observedGeneration" in status:
        status["observedGeneration"] = status["observedGeneration"] == obj["metadata"]["generation"]
    if isinstance(status.get("members"), dict):
        status["members"] = {index: _membership(obj, int(index), objects) for index in status["members"]}
    if isinstance(status.get("restarts"), dict):
        status["restarts"] = {
            index: _RESTARTS.sub(r"\1\2", text) for index, text in status["restarts"].items()
        }
    return _masked({**obj, "metadata": metadata, "spec": spec, "status": status})


def _is(owner: Object, objects: Mapping[tuple[str, str], Object]) -> str:
    existing = objects.get((owner["kind"], owner["name"]))
    return "exists" if existing is not None and existing["metadata"]["uid"] == owner["uid"] else "is gone"


def _membership(lws: Object, index: int, objects: Mapping[tuple[str, str], Object]) -> str:
    members, leader = recorded_members(lws, index), objects.get(("Pod", f"{lws['metadata']['name']}-{index}"))
    if members is None or leader is None or not members.belongs_to(leader["metadata"]["uid"]):
        return "of another leader"
    return {DELETING: "deleting", KEPT: "kept"}.get(members.workers, "complete")


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _masked(item)
            for key, item in value.items()
            if key != "observedGeneration" or item in (True, False)
        }
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    return _UID.sub("(uid)", _TIME.sub("(time)", value)) if isinstance(value, str) else value


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Return the paths at which two outcomes differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted(expected.keys() | found.keys(), key=str)
        return [
            line
            for key in keys
            for line in differences(expected.get(key), found.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if expected == found else [f"{path}: {found!r} in place of {expected!r}"]


# --- Stories


Chapter = Callable[[Play], object]


@dataclass(frozen=True)
class Story:
    """An object, and what happens to it, chapter by chapter; it comes to rest after each.

    is_new: whether its creation is the first chapter.
    """

    obj: Object
    chapters: tuple[Chapter, ...] = ()
    is_new: bool = False
    has_feature: bool = False


_FAULTS = (
    Fault(Conflict(409, "Conflict", "try again")),
    Fault(Unreachable("timed out"), is_applied=True),
    Fault(Throttled(429, "TooManyRequests", "later", 1.0)),
    Fault(ApiError(500, "InternalError", "etcd has no leader")),
)
_CUTS: tuple[bool | Fault, ...] = (False, True, *_FAULTS)
"""The faults, and the end of the process: whether no manager acts for a while."""


class Cuts:
    """Chooses the cuts to play.

    most: by default about this many cuts of each chapter are played, spread over writes and kinds.
    """

    def __init__(self, most: int) -> None:
        self._most, self._numbers = most, itertools.count()

    def of(self, cuts: Iterable[T]) -> Iterator[T]:
        """Yield the cuts of one chapter to play, of all that are possible."""
        possible = [*cuts]
        stride = next(prime for prime in _STRIDES if _IS_NIGHT or len(possible) <= prime * self._most)
        # Numbers continue from chapter to chapter, so that chapters that are alike get different cuts.
        yield from (cut for cut in possible if next(self._numbers) % stride == 0)


T = TypeVar("T")
_STRIDES = (1, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 97, 211)
"""No multiple of 2 or 3, so that every kind of cut gets its turn."""


def differences_after_cuts(story: Story, loop: asyncio.AbstractEventLoop, most: int) -> Iterator[str]:
    """Yield what differs after a cut. most: as for `Cuts`."""
    cluster, chosen = FakeCluster(story.has_feature), Cuts(most)
    for number, chapter in enumerate((lambda play: play.cluster.add(story.obj), *story.chapters)):
        beginning, uncut = cluster, Play(loop, cluster.copy())
        chapter(uncut)
        uncut.settle()
        cluster, expected = uncut.cluster.copy(), uncut.outcome()
        moments = uncut.moments if number or story.is_new else ()
        for (index, moment), cut in chosen.of(itertools.product(enumerate(moments), _CUTS)):
            if isinstance(cut, Fault):
                play, how = Play(loop, beginning.copy(), cut, index), repr(cut.error)
                chapter(play)
            else:
                play, how = Play.after(loop, moment, is_away=cut), "the process ends after it"
            where = f"chapter {number}, write {index} ({moment.write}): {how}"
            yield from _compared(play, uncut, expected, where)


def _compared(play: Play, uncut: Play, expected: Object, where: str) -> Iterator[str]:
    try:
        play.settle()
    except AssertionError as error:
        yield f"{where}: {error}"
        return
    found = differences(expected, play.outcome())
    found += [
        f"Event {reason} {count} times in place of {uncut.events[reason]}"
        for reason, count in sorted(play.events.items())
        if count > uncut.events[reason]
    ]
    if found:
        yield "\n    ".join((where, *found))


def image(name: str, **spec: Any) -> Chapter:
    template = {"workerTemplate": make_pod_template(name)}
    return lambda play: play.edit(**_merged({"leaderWorkerTemplate": template}, spec))


def edit(**spec: Any) -> Chapter:
    return lambda play: play.edit(**spec)


def crash(pod: str = f"{NAME}-0-1") -> Chapter:
    def crashed(play: Play) -> None:
        stored = play.cluster.find("Pod", pod)
        if stored is not None and not is_terminating(stored):
            play.nodes.crash(stored)

    return crashed


def replace_worker(play: Play) -> None:
    """Replace a worker while no manager runs."""
    play.cluster.request_deletion(play.get("Pod", f"{NAME}-0-1"))
    play.wait()
    play.take_over()


def evict(play: Play) -> None:
    play.nodes.fail(play.get("Pod", f"{NAME}-0-1"))


def lose(pod: str) -> Chapter:
    return lambda play: play.cluster.request_deletion(play.get("Pod", pod))


def recover(play: Play) -> None:
    leader = play.get("Pod", f"{NAME}-0")
    play.cluster.change(
        leader, {"annotations": {**leader["metadata"]["annotations"], RECOVER_ANNOTATION: "true"}}
    )


def delete(play: Play) -> None:
    play.cluster.request_deletion(play.get())


def limited(limit: int, policy: str = "RecreateGroupOnPodRestart", **more: Any) -> Object:
    return make_set(template={"restartPolicy": policy, "maxGroupRestarts": limit, **more})


SETS = {
    "creation": Story(
        make_set(
            max_surge=1,
            networkConfig={"subdomainPolicy": "UniquePerReplica"},
            leaderService={},
            podDisruptionBudget={},
        ),
        is_new=True,
    ),
    "rollout": Story(make_set(replicas=3), (image("app:2"),)),
    "rollout with the feature on": Story(
        make_set(replicas=3, max_unavailable=2), (image("app:2"),), has_feature=True
    ),
    "rollout with surge": Story(make_set(max_surge=1, max_unavailable=0), (image("app:2"),)),
    "startStrategy": Story(
        make_set(replicas=4, max_unavailable=4, startStrategy={"seedGroups": 1, "growthFactor": 2}),
        (image("app:2"),),
    ),
    "canary": Story(
        make_set(replicas=3, partition=2),
        (image("app:2"), edit(rolloutStrategy={"rollingUpdateConfiguration": {"partition": 0}})),
    ),
    "pause": Story(
        make_set(replicas=3),
        (image("app:2", rolloutStrategy={"paused": True}), edit(rolloutStrategy={"paused": False})),
    ),
    "scale": Story(make_set(replicas=1), (edit(replicas=3), edit(replicas=1), edit(replicas=0))),
    "prewarm": Story(
        make_set(
            rolloutStrategy={
                "type": "RollingUpdate",
                "prewarm": {"deadlineSeconds": 600, "parallelism": 1, "command": ["load"]},
            }
        ),
        (image("app:2"),),
    ),
    "lost leader": Story(make_set(), (lose(f"{NAME}-0"),)),
    "lost worker": Story(make_set(), (lose(f"{NAME}-0-1"),)),
    "eviction": Story(make_set(), (evict,)),
    "replaced worker": Story(make_set(), (replace_worker,)),
    "another size": Story(make_set(), (edit(leaderWorkerTemplate={"size": 3}),)),
    "parallel termination": Story(make_set(podTerminationPolicy="Parallel"), (lose(f"{NAME}-0"),)),
    "deletion": Story(limited(0), (crash(), delete)),
    **{
        f"undo, history {limit}": Story(
            make_set(revisionHistoryLimit=limit), (image("app:2"), image("app:3"), image("app:1"))
        )
        for limit in range(3)
    },
    **{
        f"{policy}, limit {limit}": Story(limited(limit, policy), (crash(),) * (limit + 1))
        for policy in ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None")
        for limit in range(3)
    },
    **{
        f"limit {limit}, then recovered": Story(limited(limit), (*(crash(),) * (limit + 1), recover, crash()))
        for limit in range(2)
    },
    "both groups fail": Story(limited(2), (lambda play: (crash()(play), crash(f"{NAME}-1-1")(play)),)),
    "back-off": Story(limited(2, restartBackoff={"baseSeconds": 10, "capSeconds": 60}), (crash(),) * 3),
    **{
        f"spec.maxGroupRestarts {limit}": Story(make_set(maxGroupRestarts=limit), (crash(),) * (limit + 1))
        for limit in range(3)
    },
    "failure, then a rollout": Story(limited(2), (crash(), image("app:2"), crash())),
    "failure, then a smaller set": Story(
        limited(2), (crash(f"{NAME}-1-1"), edit(replicas=1), edit(replicas=2))
    ),
}


def pair(*roles: Object, **spec: Any) -> Object:
    """Return a DisaggregatedSet whose name no LeaderWorkerSet of these stories has."""
    obj = make_disaggregated(roles=[*roles] or None, **spec)
    del obj["metadata"]["uid"]
    return obj


def roles(change: Callable[[Object], object], **spec: Any) -> Chapter:
    """Change every role, and fields of the spec."""

    def changed(play: Play) -> None:
        stored = copy.deepcopy(play.get(PAIR)["spec"])
        for role in stored["roles"]:
            change(role)
        play.edit(PAIR, **{**stored, **spec})

    return changed


def role_image(name: str, **spec: Any) -> Chapter:
    def set_image(role: Object) -> None:
        role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = name

    return roles(set_image, **spec)


def keep(role: Object) -> None:
    """Leave a role as it is."""


def double(role: Object) -> None:
    role["spec"]["replicas"] *= 2


def external(role: Object) -> None:
    role["spec"].pop("replicas")
    role["scaling"] = {"mode": "External"}


def to_scaler(replicas: int) -> Chapter:
    return lambda play: play.edit(SCALER_KIND, f"{NAME}-prefill", replicas=replicas)


SURGE = {"maxSurge": 1, "maxUnavailable": 0}
PAIRS = {
    "creation": Story(pair(), is_new=True),
    "rollout": Story(pair(), (role_image("app:2"),)),
    "rollout with surge": Story(
        pair(make_role("prefill", 2, rolling=SURGE), make_role("decode", 2, rolling=SURGE)),
        (role_image("app:2"),),
    ),
    "two slices, one at a time": Story(
        pair(slices=2, rolloutStrategy={"maxUpdatingSlices": 1}), (role_image("app:2"), roles(keep, slices=1))
    ),
    "scale": Story(pair(), (roles(double),)),
    "External scaler": Story(pair(), (roles(external), to_scaler(3), role_image("app:2"))),
    "pause": Story(
        pair(),
        (
            role_image("app:2", rolloutStrategy={"paused": True}),
            roles(keep, rolloutStrategy={"paused": False}),
        ),
    ),
    "deletion": Story(pair(), (lambda play: play.cluster.request_deletion(play.get(PAIR)),)),
    **{
        f"undo, history {limit}": Story(
            pair(revisionHistoryLimit=limit), (role_image("app:2"), role_image("app:1"))
        )
        for limit in range(3)
    },
}


# --- Hash groups, whose names differ between two runs


class HashPlay(HashCluster):
    """A cluster with a Hash set that notes every write.

    created: revision and UID of every leader. moments: if `is_noted`, each write and a copy of the cluster
    right after it.
    """

    def __init__(self, lws: Object) -> None:
        self.created: set[tuple[str, str]] = set()
        self.moments: list[tuple[str, HashPlay]] = []
        self.is_noted = False
        super().__init__(lws)

    def copy(self) -> HashPlay:
        """Return the same cluster with another manager, which has just started."""
        twin = HashPlay(copy.deepcopy(self.lws))
        twin._numbers = itertools.count(next(self._numbers))
        for obj in copy.deepcopy([*self.objects.values()]):
            twin.put(obj)
        twin.now, twin.created, twin._ending = self.now, set(self.created), dict(self._ending)
        twin.events = [*self.events]
        return twin

    def put(self, obj: Object) -> Object:
        stored = super().put(obj)
        if labels_of(stored).get(WORKER_INDEX_LABEL) == "0" and stored["kind"] == "Pod":
            self.created.add((labels_of(stored)[REVISION_LABEL], uid_of(stored)))
        return stored

    def _do(self, action: Action) -> None:
        super()._do(action)
        if self.is_noted:
            self.moments.append((f"{type(action).__name__} {target_of(action)}", self.copy()))

    def _status(self, target: Reference, patch: Any) -> None:
        super()._status(target, patch)
        if self.is_noted:
            self.moments.append((f"status of {target}", self.copy()))

    def outcome(self) -> Object:
        lws, status = self.lws, self.lws["status"]
        counts = json.loads(annotations_of(lws).get(GROUP_RESTART_COUNTS_ANNOTATION, "{}"))
        restarts = (status.get("restarts") or {}).values()
        conditions = (each for each in status["conditions"] if each["status"] != "False")
        return {
            "groups": sorted(self._group(leader) for leader in self.leaders()),
            "leaders created": Counter(revision for revision, _ in self.created),
            "counts": sorted(f"{key.partition('/')[0]}: {count}" for key, count in counts.items()),
            "restarts": sorted(_RESTARTS.sub(r"\1\2", text) for text in restarts),
            "status": {field: status.get(field) for field in _FIGURES},
            "conditions": sorted((each["type"], each["reason"]) for each in conditions),
            "revisions": sorted(
                (obj["metadata"]["name"], obj["revision"]) for obj in self._all("ControllerRevision")
            ),
            "Deployment": self.objects["Deployment", self.name]["spec"],
        }

    def _group(self, leader: Object) -> str:
        marks = ["gated"] * bool(gates_of(leader)) + ["ready"] * is_ready(leader)
        marks += ["exhausted"] * is_exhausted(leader) + ["terminating"] * is_terminating(leader)
        return f"{labels_of(leader)[REVISION_LABEL]}: {len(self.pods_of(leader))} pods {' '.join(marks)}"


_FIGURES = (
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "currentRevision",
    "updateRevision",
    "collisionCount",
)
HashChapter = Callable[[HashPlay], object]


def hash_image(name: str) -> HashChapter:
    return lambda play: play.edit(leaderWorkerTemplate={"workerTemplate": make_pod_template(name)})


def fail(play: HashPlay) -> None:
    """Delete a worker of the group with the most restarts."""
    counts = counts_in(play.lws)
    live = [leader for leader in play.leaders(live=True) if not gates_of(leader)]
    leader = max(live, key=lambda pod: (counts.get(count_key(pod), 0), name_of(pod)))
    play.delete(play.objects["Pod", f"{leader['spec']['hostname']}-1"])


def recover_hash(play: HashPlay) -> None:
    for leader in play.leaders():
        if is_exhausted(leader):
            patch = {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}}
            play.change("Pod", name_of(leader), patch)


def hash_set(**how: Any) -> Object:
    return make_set(**{"groupIdentity": "Hash", **how})


HASH_SETS: dict[str, tuple[Object, tuple[HashChapter, ...]]] = {
    "creation": (hash_set(), ()),
    "rollout": (hash_set(replicas=3), (hash_image("app:2"),)),
    "rollout with surge": (hash_set(max_surge=1), (hash_image("app:2"), hash_image("app:1"))),
    "startStrategy": (
        hash_set(replicas=3, max_unavailable=3, startStrategy={"seedGroups": 1, "growthFactor": 2}),
        (hash_image("app:2"),),
    ),
    "scale": (hash_set(), (lambda play: play.edit(replicas=3), lambda play: play.edit(replicas=1))),
    "unlimited": (hash_set(), (fail, fail)),
    **{
        f"limit {limit}, {policy}": (
            hash_set(template={"maxGroupRestarts": limit}, groupReplacementPolicy=policy),
            (*(fail,) * (limit + 1), recover_hash),
        )
        for limit in range(3)
        for policy in ("PostTermination", "Immediate")
    },
    "spec.maxGroupRestarts 1": (hash_set(maxGroupRestarts=1), (fail, fail)),
    "failure, then a rollout": (
        hash_set(template={"maxGroupRestarts": 2}),
        (fail, hash_image("app:2"), fail),
    ),
}


async def hash_differences(lws: Object, chapters: Sequence[HashChapter], most: int) -> AsyncIterator[str]:
    """Yield what differs after a cut, for each write of each chapter, the creation first."""
    cluster, chosen = HashPlay(copy.deepcopy(lws)), Cuts(most)
    for number, chapter in enumerate((lambda play: None, *chapters)):
        uncut = cluster.copy()
        uncut.is_noted = True
        chapter(uncut)
        await uncut.settle(seconds=700.0)
        expected = uncut.outcome()
        kinds = ("ends", "ends and stays away", "rejected")
        for (index, (write, after)), how in chosen.of(itertools.product(enumerate(uncut.moments), kinds)):
            play = after if how != "rejected" else cluster.copy()
            if how == "rejected":
                play.is_lost = partial(_is_nth, index, itertools.count())
                chapter(play)
            elif how == "ends and stays away":
                play = after.copy()
                await play.settle(seconds=1.0, with_manager=False)
            for _ in range(2):
                # A pass that fails is repeated although nothing else has changed.
                await play.settle(seconds=700.0)
            found = differences(expected, play.outcome())
            found += [
                f"Event {reason} {play.events.count(reason)} times in place of {uncut.events.count(reason)}"
                for reason in sorted(_COUNTING)
                if play.events.count(reason) > uncut.events.count(reason)
            ]
            if found:
                yield "\n    ".join((f"chapter {number}, write {index} ({write}): {how}", *found))
        cluster = uncut.copy()


def _is_nth(index: int, numbers: Iterator[int], _: Action) -> bool:
    return next(numbers) == index


@pytest.mark.parametrize("name", SETS)
def test_a_cut_changes_nothing_about_a_set(loop: asyncio.AbstractEventLoop, name: str) -> None:
    found = [*differences_after_cuts(SETS[name], loop, most=20)]
    assert not found, "\n".join(found)


def test_a_cut_changes_no_collision_count(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All templates have one hash."""
    monkeypatch.setattr(history, "key_at", lambda hashed, probe: f"same{probe or ''}")
    monkeypatch.setattr(
        reading, "keys_of", lambda text: (f"same{probe or ''}" for probe in itertools.count())
    )
    story = Story(make_set(replicas=1), (image("app:2"), image("app:3")))
    found = [*differences_after_cuts(story, loop, most=12)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAIRS)
def test_a_cut_changes_nothing_about_a_disaggregatedset(loop: asyncio.AbstractEventLoop, name: str) -> None:
    found = [*differences_after_cuts(PAIRS[name], loop, most=8)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", HASH_SETS)
async def test_a_cut_changes_nothing_about_a_hash_set(name: str) -> None:
    found = [line async for line in hash_differences(*HASH_SETS[name], most=10)]
    assert not found, "\n".join(found)
