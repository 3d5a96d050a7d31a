"""Which pods and StatefulSets make up the groups of a set?

In: a set or a leader pod, and the store. Out: facts about groups; ownership decides, by UID at each step.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from lws.actions import Object
from lws.cluster.owners import Owners
from lws.cluster.store import Store
from lws.kube.metadata import annotations_of, controller_of, is_controlled_by, is_terminating
from lws.kube.names import parent_and_ordinal
from lws.kube.pods import is_ready
from lws.leaderworkerset import spec
from lws.leaderworkerset.snapshot import GroupFacts
from lws_api.leaderworkerset.v1 import KIND, SUBDOMAIN_POLICY_ANNOTATION, SubdomainPolicy


class Membership:
    """Looks in the store only. going: UIDs of pods that some pass is deleting at the moment."""

    def __init__(self, store: Store, going: Container[str]) -> None:
        self._store = store
        self._owners = Owners(store)
        self._going = going
        # By set, by UID of the leader pod: what a group was read off, what was read, and whether more has to
        # be looked at. Of a thousand groups few have changed since the last pass, and the store never changes
        # an object in place.
        self._known: dict[tuple[str, str], dict[str, tuple[list[Object | None], GroupFacts, bool]]] = {}

    def leader_pods_of(self, lws: Object) -> list[Object]:
        """Leader pods of a set, in no order."""
        leader = self._store.get("StatefulSet", spec.namespace_of(lws), spec.name_of(lws))
        if leader is None or not is_controlled_by(leader, spec.uid_of(lws)):
            return []
        return self._store.controlled_by(leader["metadata"]["uid"], "Pod")

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
        return lws if is_controlled_by(statefulset, spec.uid_of(lws)) else None

    def groups_of(self, leader: Object) -> tuple[GroupFacts, ...]:
        """Groups whose leader pods this StatefulSet controls, by index."""
        owner = leader["metadata"]
        place = (owner["namespace"], owner["name"])
        before, now = self._known.get(place, {}), {}
        facts = []
        for pod in self._store.controlled_by(owner["uid"], "Pod"):
            metadata = pod["metadata"]
            workers = self._store.get("StatefulSet", metadata["namespace"], metadata["name"])
            pods = self._store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
            seen, known = [pod, workers, *pods], before.get(metadata["uid"])
            # Lists of the very same objects are equal at once.
            if known is None or known[0] != seen:
                found = _facts_of(pod, workers, pods)
                known = (seen, found, _may_be_obstructed(found, workers))
            now[metadata["uid"]] = known
            _, found, is_open = known
            if found.index >= 0 and metadata["name"] == f"{owner['name']}-{found.index}":
                is_open |= metadata["uid"] in self._going
                facts.append(self._with_neighbours(found, workers) if is_open else found)
        self._known[place] = now
        return tuple(sorted(facts, key=lambda group: group.index))

    def forget(self, namespace: str, name: str) -> None:
        """There is no set of this name any more."""
        self._known.pop((namespace, name), None)

    def _with_neighbours(self, group: GroupFacts, workers: Object | None) -> GroupFacts:
        """What depends on other objects than its own."""
        is_going = group.leader["metadata"]["uid"] in self._going
        obstacle = self._obstacle(group.leader, workers)
        if not is_going and obstacle is None:
            return group
        return replace(group, going=is_going, obstacle=obstacle)

    def _obstacle(self, pod: Object, workers: Object | None) -> Object | None:
        """Whatever of a stranger has a name that the group of this leader pod needs."""
        named = [workers]
        if _has_own_service(pod):
            named.append(self._store.get("Service", pod["metadata"]["namespace"], pod["metadata"]["name"]))
        uid = pod["metadata"]["uid"]
        strangers = (
            each
            for each in named
            if each is not None and not is_controlled_by(each, uid) and self._owners.is_foreign(each)
        )
        return next(strangers, None)


def _has_own_service(leader: Object) -> bool:
    return annotations_of(leader).get(SUBDOMAIN_POLICY_ANNOTATION) == SubdomainPolicy.UNIQUE_PER_REPLICA


def _may_be_obstructed(group: GroupFacts, workers: Object | None) -> bool:
    """workers: the StatefulSet that has the name of the leader, whosever it is."""
    return group.workers is not workers or _has_own_service(group.leader)


def _facts_of(pod: Object, workers: Object | None, pods: list[Object]) -> GroupFacts:
    """workers: the StatefulSet that has the name of the pod; pods: those that it controls."""
    metadata = pod["metadata"]
    is_its_own = workers is not None and is_controlled_by(workers, metadata["uid"])
    ready = (each["metadata"]["uid"] for each in pods if is_ready(each) and not is_terminating(each))
    return GroupFacts(
        index=parent_and_ordinal(metadata["name"])[1],
        leader=pod,
        workers=workers if is_its_own else None,
        worker_uids=tuple(ready) if is_its_own else (),
    )
