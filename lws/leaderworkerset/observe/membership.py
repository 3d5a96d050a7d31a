"""Find the pods and StatefulSets that make up the groups of a set, by owner UIDs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.kube.names import parent_and_ordinal
from lws.kube.ownership import Ownership
from lws.kube.pods import is_ready, wait_for_node
from lws.leaderworkerset.assessment.likeness import ownership_of_service, ownership_of_workers
from lws.leaderworkerset.group.objects import build_group_service
from lws.leaderworkerset.revisions.keys import (
    STATEFULSET_REVISION_LABEL,
    Origin,
    as_made,
    key_of_leader,
    made_from,
    origin_of,
)
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws.runtime.actions import Object
from lws.runtime.client.resources import Workload
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    KIND,
    SUBDOMAIN_POLICY_ANNOTATION,
    SubdomainPolicy,
)

_INDEX = attrgetter("index")


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read off a group, and off which objects.

    named: the revision that its leader names, made: whose key that has. is_member: its leader has the name of
    one. is_open: its neighbours have to be looked at each time.
    """

    pod: Object
    workers: Object | None
    pods: tuple[Object, ...]
    named: str
    made: str | None
    facts: GroupFacts
    is_member: bool
    is_open: bool


def leader_pods_of(store: Store, lws: Object) -> list[Object]:
    """Leader pods of a set, in no order."""
    leader = store.get("StatefulSet", namespace_of(lws), name_of(lws))
    if leader is None or not is_controlled_by(leader, uid_of(lws)):
        return []
    return store.controlled_by(leader["metadata"]["uid"], "Pod")


class Membership:
    """Looks in the store only. going: UIDs of pods that some pass is deleting at the moment."""

    def __init__(self, store: Store, going: Container[str]) -> None:
        self._store = store
        self._owners = Owners(store, LEADER_WORKER_SET)
        self._going = going
        # By leader StatefulSet, by UID of the leader pod. Of a thousand groups few have changed since the
        # last pass, and the store never changes an object in place.
        self._known: dict[tuple[str, str], dict[str, _Read]] = {}

    def set_of_leader(self, leader: Object) -> Object | None:
        """The set that owns the StatefulSet that owns the pod, by UID at each step."""
        owner = controller_of(leader)
        if owner is None or owner["kind"] != "StatefulSet":
            return None
        namespace = leader["metadata"]["namespace"]
        statefulset = self._store.get("StatefulSet", namespace, owner["name"])
        lws = self._store.get(KIND, namespace, owner["name"])
        if statefulset is None or lws is None or statefulset["metadata"]["uid"] != owner["uid"]:
            return None
        return lws if is_controlled_by(statefulset, uid_of(lws)) else None

    def groups_of(self, leader: Object) -> tuple[GroupFacts, ...]:
        """Groups whose leader pods this StatefulSet controls, by index."""
        owner, owned_by = leader["metadata"], self._store.owned_by
        place = (owner["namespace"], owner["name"])
        before, now = self._known.get(place, {}), {}
        # All leaders together name one or two.
        made_by: dict[str, str | None] = {}
        facts = []
        for pod in owned_by(owner["uid"], "Pod"):
            metadata = pod["metadata"]
            workers = self._store.get("StatefulSet", metadata["namespace"], metadata["name"])
            pods = owned_by(workers["metadata"]["uid"], "Pod") if workers is not None else ()
            uid = metadata["uid"]
            known = before.get(uid)
            if known is not None and known.pod is pod:
                named = known.named
            else:
                known, named = None, labels_of(pod).get(STATEFULSET_REVISION_LABEL, "")
            if named not in made_by:
                made_by[named] = self._made_from(named, leader)
            made = made_by[named]
            if known is None or known.workers is not workers or known.pods is not pods or known.made != made:
                found = _facts_of(pod, workers, pods, made)
                is_member = found.index >= 0 and metadata["name"] == f"{owner['name']}-{found.index}"
                is_open = _may_be_obstructed(found, workers)
                known = _Read(pod, workers, pods, named, made, found, is_member, is_open)
            now[uid] = known
            if known.is_member:
                is_open = known.is_open or uid in self._going
                facts.append(self._with_neighbours(known.facts, workers) if is_open else known.facts)
        # One that has gone meanwhile nobody would forget any more.
        if self._store.has("StatefulSet", *place, owner["uid"]):
            self._known[place] = now
        return tuple(sorted(facts, key=_INDEX))

    def hides_workers(self, pod: Object) -> bool:
        """The StatefulSet of a leader's workers is not seen, but one of its pods is, which stays: it may have
        lost the label by which streams are narrowed.
        """
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if self._store.get("StatefulSet", namespace, name) is not None:
            return False
        worker = self._store.get("Pod", namespace, f"{name}-1")
        owner = controller_of(worker) if worker is not None and not is_terminating(worker) else None
        return owner is not None and (owner["kind"], owner["name"]) == ("StatefulSet", name)

    def origin_of(self, pod: Object, leaders: Object, workers: Object | None) -> Origin:
        """From which revision a leader pod was made. leaders: the StatefulSet that controls it; workers: the
        one that it controls.
        """
        made = self._made_from(labels_of(pod).get(STATEFULSET_REVISION_LABEL, ""), leaders)
        return origin_of(pod, leaders, workers, made)

    def _made_from(self, named: str, leaders: Object) -> str | None:
        metadata = leaders["metadata"]
        known = self._store.get("ControllerRevision", metadata["namespace"], named)
        is_its_own = known is not None and is_controlled_by(known, metadata["uid"])
        return made_from(named, leaders, known if is_its_own else None)

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        if obj["kind"] == "StatefulSet":
            self._known.pop((namespace_of(obj), name_of(obj)), None)

    def _with_neighbours(self, group: GroupFacts, workers: Object | None) -> GroupFacts:
        """What depends on other objects than its own."""
        is_going = group.leader["metadata"]["uid"] in self._going
        obstacle = self._obstacle(group.leader, workers)
        if not is_going and obstacle is None:
            return group
        return replace(group, going=is_going, obstacle=obstacle)

    def _obstacle(self, pod: Object, workers: Object | None) -> Object | None:
        """Whatever of a stranger has a name that the group of this leader pod needs.

        Decided here: to the set, whose fact it is, the Service that its groups need is unknown.
        """
        metadata, set_name = pod["metadata"], (controller_of(pod) or {}).get("name", "")
        uid = metadata["uid"]
        if workers is not None and not is_controlled_by(workers, uid):
            ownership = ownership_of_workers(workers, pod, set_name, self._owners.alive(workers))
            if ownership == Ownership.CLASH:
                return workers
        service = self._store.get("Service", metadata["namespace"], metadata["name"])
        if service is None or is_controlled_by(service, uid) or not _has_own_service(pod):
            return None
        intent = build_group_service(set_name, pod)
        ownership = ownership_of_service(service, uid, intent, self._owners.alive(service))
        return service if ownership == Ownership.CLASH else None


def _has_own_service(leader: Object) -> bool:
    policy = annotations_of(leader).get(SUBDOMAIN_POLICY_ANNOTATION)
    return policy == SubdomainPolicy.UNIQUE_PER_REPLICA and GROUP_INDEX_LABEL in labels_of(leader)


def _may_be_obstructed(group: GroupFacts, workers: Object | None) -> bool:
    """workers: the StatefulSet that has the name of the leader, whosever it is."""
    return group.workers is not workers or _has_own_service(group.leader)


def own_workers(pod: Object, workers: Object | None) -> Object | None:
    """The StatefulSet of a leader's name, where this very leader controls it."""
    return workers if workers is not None and is_controlled_by(workers, pod["metadata"]["uid"]) else None


def _facts_of(pod: Object, workers: Object | None, pods: Sequence[Object], made: str | None) -> GroupFacts:
    """workers: the StatefulSet that has the name of the pod; pods: those that it controls. made: the key of
    the template that the pod was made from, as far as its own StatefulSet shows it.
    """
    own = own_workers(pod, workers)
    staying = [each for each in pods if not is_terminating(each)] if own is not None else []
    waiting = [] if is_terminating(pod) else [pod, *staying]
    return GroupFacts(
        index=parent_and_ordinal(pod["metadata"]["name"])[1],
        leader=as_made(pod, key_of_leader(pod, own, made), made),
        workers=own,
        worker_uids=tuple(each["metadata"]["uid"] for each in staying if is_ready(each)),
        waits=tuple(wait for each in waiting if (wait := wait_for_node(each)) is not None),
    )


# --- Report whether the controllers of foreign objects still exist, as far as the store knows. An owner of
# a kind that is not watched is assumed to exist.


class Owners:
    """Looks for owners in the store. workload: the one that the objects would belong to."""

    def __init__(self, store: Store, workload: Workload) -> None:
        self._store = store
        self._workload = workload
        self._watched = {workload.resource.kind, *workload.owners}

    def alive(self, *objects: Object | None) -> frozenset[str]:
        """UIDs of the controllers that live."""
        return frozenset(
            owner["uid"]
            for obj in objects
            if obj is not None and (owner := controller_of(obj)) is not None and self._is_alive(obj, owner)
        )

    def _is_alive(self, obj: Object, owner: Object) -> bool:
        if owner["kind"] not in self._watched:
            return True
        known = self._store.get(owner["kind"], obj["metadata"]["namespace"], owner["name"])
        if known is not None:
            return bool(known["metadata"]["uid"] == owner["uid"])
        # The kind itself is all watched, and whatever has the label; any other owner may live unseen.
        workload = self._workload
        return owner["kind"] != workload.resource.kind and workload.label not in labels_of(obj)
