"""Judge the passes over a DisaggregatedSet, step by step and pod by pod.

An AssertionError begins with the name of the broken promise. Steps are judged by what the pass knew, with the
rules of the planner's own tests; pods are judged by the actual state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from lws.disaggregatedset.rollout.state import SliceState, SliceStep
from lws.disaggregatedset.slices import course
from lws.disaggregatedset.slices.state import rollout_record
from lws.disaggregatedset.slices.step import SliceFacts
from lws.disaggregatedset.snapshot import ChildFacts
from lws.kube.metadata import controller_of, is_terminating
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL
from test.unit.stories.disaggregated.cluster import Child, Children, Group
from test.unit.stories.disaggregated.promises import Promises
from test.unit.stories.fake_cluster import FakeCluster

_plan_step = course.plan_step


@dataclass
class _Taken:
    """A step that a pass takes in one slice, with its children as its writes have left them so far."""

    within: SliceFacts
    state: SliceState
    step: SliceStep
    promises: Promises

    @property
    def children(self) -> Children:
        return self.promises.children

    @property
    def is_written(self) -> bool:
        """Whether all of the step is written. An object that has the name of a child may delay it."""
        counts = {self.within.key: self.step.new, **self.step.old}
        return all(
            (child := self.children.get(key, role)) is not None and child.desired == replicas
            for key, roles in counts.items()
            for role, replicas in roles.items()
        )


@dataclass
class Steps:
    """The steps of one pass."""

    taken: dict[int, _Taken] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the steps of the pass that the body of the `with` statement runs."""
        self.taken = {}
        with mock.patch.object(course, "plan_step", self._plan_step):
            yield

    def _plan_step(self, within: SliceFacts, state: SliceState, step: SliceStep) -> Any:
        # While other slices keep a slice from starting its rollout, it is scaled like a paused one.
        is_held = within.spec.max_updating_slices is not None and not state.new.counts
        children = _children(within)
        promises = Promises(children, state, step, within.key, within.spec.paused or is_held)
        self.taken[within.index] = _Taken(within, state, step, promises)
        return _plan_step(within, state, step)

    def check_decisions(self) -> None:
        """Check the decisions of the pass before any of them is written."""
        for current in self.taken.values():
            if "maxUpdatingSlices" not in current.step.waiting_for:
                current.promises.check_answer()
            current.promises.check_old_ratio()

    def check_write(self, where: tuple[int, str], key: str, verb: str, replicas: int) -> None:
        """Check a write that is done."""
        current, role = self.taken.get(where[0]), where[1]
        if current is None or role not in current.promises.roles:
            return
        before = current.children.get(key, role)
        if verb == "delete":
            current.promises.check_delete(key)
            current.children.by_key.get(key, {}).pop(role, None)
            return
        if key != current.within.key and before is None:
            within = current.within
            memory = within.record or rollout_record(within.snapshot.obj, within.index)
            lost = max(memory.initial.values(), default=0) if memory is not None else replicas
            current.promises.check_return(key, role, replicas, lost)
        elif key == current.within.key and replicas > (before.desired if before else 0):
            current.promises.check_ratio(role, replicas)
        current.children.want(key, role, replicas)

    def check_end(self) -> None:
        """Check the steps of a pass in which nothing failed."""
        for current in self.taken.values():
            if current.is_written:
                current.promises.check_end()

    def is_last_resort(self, where: tuple[int, str], key: str, groups: int) -> bool:
        """Return whether one healthy group may go because broken groups alone use up maxUnavailable."""
        current, role = self.taken.get(where[0]), where[1]
        if current is None or groups != 1:
            return False
        count = next((revision.of(role) for revision in current.state.old if revision.key == key), None)
        is_broken = count is not None and count.ready < count.desired
        return is_broken and current.promises.new_is_ready and not current.state.old_starting(role)


def _children(within: SliceFacts) -> Children:
    children = Children()
    for facts in sorted(within.children, key=lambda facts: facts.name):
        if not facts.is_terminating or facts.existing:
            children.by_key.setdefault(facts.key, {})[facts.role] = _child(facts)
    return children


def _child(facts: ChildFacts) -> Child:
    """Return the child as the pass knew it. The pass knows whether all groups are ready, but not which ones
    are.
    """
    groups = {index: Group.STARTING for index in range(facts.existing)}
    ready = facts.desired if facts.is_settled else min(facts.ready, facts.desired - 1)
    groups |= {index: Group.READY for index in range(ready)}
    return Child(facts.desired, groups, not facts.is_terminating, has_acted=facts.is_settled)


def check_record(cluster: FakeCluster, child: Any) -> None:
    """Check that the template of a created child is recorded under its key, and no other one."""
    labels, images = child["metadata"]["labels"], set()
    key, role = labels[REVISION_LABEL], labels[ROLE_LABEL]
    for revision in cluster.of_kind("ControllerRevision"):
        if {NAME_LABEL, REVISION_LABEL} <= (its := revision["metadata"].get("labels", {})).keys():
            roles = revision["data"]["spec"].get("roles", ()) if its[REVISION_LABEL] == key else ()
            images |= {_image(of_role["spec"]) for of_role in roles if of_role["name"] == role}
    assert images == {_image(child["spec"])}, f"record: {key} of {role} is {images or 'nowhere'}"


def _image(spec: Any) -> str:
    image: str = spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"]
    return image


class Pods:
    """Judge of pod deletions: it notes which pods have failed, and which are deleted without a reason."""

    def __init__(self, cluster: FakeCluster, nodes: Any) -> None:
        self.failed: set[str] = set()
        self._cluster = cluster
        for failure in ("crash", "fail", "lose_node"):
            setattr(nodes, failure, self._noted(getattr(nodes, failure)))
        self._request_deletion = cluster.request_deletion
        cluster.request_deletion = self._judged  # type: ignore[method-assign]

    def _noted(self, happen: Any) -> Any:
        def noted(pod: Any) -> None:
            self.failed.add(pod["metadata"]["uid"])
            happen(pod)

        return noted

    def _judged(self, obj: Any, foreground: bool = False) -> Any:
        if obj["kind"] == "Pod" and not is_terminating(obj):
            assert self._has_reason(obj), f"reason: {obj['metadata']['name']} is restarted"
        return self._request_deletion(obj, foreground)

    def _has_reason(self, pod: Any) -> bool:
        """Return whether the pod has failed, or its owners do not want it any more."""
        name, _, index = pod["metadata"]["name"].rpartition("-")
        owner, wanting = controller_of(pod), [self._cluster.find("LeaderWorkerSet", name)]
        wanting.append(self._cluster.find("StatefulSet", name))
        if pod["metadata"]["uid"] in self.failed or owner is None:
            return True
        if any(child is None or is_terminating(child) for child in wanting):
            return True
        if wanting[1]["metadata"]["uid"] != owner["uid"]:  # type: ignore[index]
            return True
        return any(int(index) >= child["spec"]["replicas"] for child in wanting)  # type: ignore[index]
