"""Types of plans: writes, Events and status as frozen data, which `lws.runtime.apply` carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

# --- Metrics of a workload, as part of a plan.


ROLLING = "rolling"
"""Word of the gauge that is 1 during a rollout and 0 otherwise, for every kind of workload."""


@dataclass(frozen=True, slots=True)
class Tally:
    """An increment of a counter, counted after the write that carries it.

    kind, name: the workload. word: the counter's name in plans. label: the value of the counter's additional
    label, such as a reason.
    """

    kind: str
    name: str
    word: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Gauges of a workload, or of a part of it, until the next pass over the same key.

    kind, name: the workload. numbers: the values by word and label, summed over the parts of a workload.
    revision: the target revision key. rolling_since: the start of the current rollout (RFC 3339). Both are
    empty if unknown. groups: by UID of the leader pod, its creation time (RFC 3339) if its group is ready;
    otherwise empty.
    """

    kind: str
    name: str
    numbers: Mapping[tuple[str, str], float]
    revision: str = ""
    rolling_since: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)


Object = Mapping[str, Any]
"""A Kubernetes object, or part of one, as JSON data; never changed in place."""

EventType = Literal["Normal", "Warning"]
Propagation = Literal["Foreground", "Background", "Orphan"]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON text that must reach the API server byte for byte (ControllerRevision.data)."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an object by name, and by UID if `uid` is set."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def to(cls, obj: Object) -> Reference:
        """Return the reference to an object that the API server returned."""
        metadata = obj["metadata"]
        return cls(
            api_version=obj["apiVersion"],
            kind=obj["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Fold:
    """How to combine an Event with others of its kind.

    template: the note of the combined Event, with {} for the names of the members. member: the name of the
    member that the Event is about. related: the object that all members belong to. change: the counts of the
    member before and after; of several changes, the first and the last count are reported. waits: whether
    even the first few Events are combined instead of being written one by one.
    """

    template: str
    member: str
    related: Reference | None = None
    change: tuple[int, int] | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Announce:
    """A Kubernetes Event (events.k8s.io/v1), emitted after the write that it reports.

    fold: how to combine the Event with others, a little later; None for an Event that is written alone. once:
    whether each manager writes the Event only once, although every pass plans it while the condition lasts.
    ends: whether delayed Events about the object are written before this one.
    """

    regarding: Reference
    reason: str
    action: str
    note: str
    type: EventType = "Normal"
    related: Reference | None = None
    fold: Fold | None = None
    once: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of the whole intent by the field manager `lws`.

    uid: the UID of the object in the snapshot; empty if there was none. Without it the apply is not forced,
    so that it cannot take fields of another owner's new object. failure: an Event for a rejection; the error
    is appended to its note. tallies: increments that are counted after success.
    """

    intent: Object
    why: str
    uid: str = ""
    announce: tuple[Announce, ...] = ()
    failure: Announce | None = None
    tallies: tuple[Tally, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object if it does not exist.

    An existing object with this name counts as created if it has the same controller by UID, is not
    terminating, and has the labels and verbatim data of the intent. Any other object is an error and part of
    the next snapshot.
    """

    intent: Object
    why: str
    announce: tuple[Announce, ...] = ()
    failure: Announce | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """A JSON merge patch (RFC 7386) of an object that we control, guarded by its UID.

    A patch with a `resourceVersion` is written to that version only; otherwise the next pass plans again.

    subresource: `status` for records that must be stored before the next action of the sequence; `Status`
    writes all other fields of a status. is_strategic: whether this is a strategic merge patch, which merges
    lists by key and exists only for built-in kinds.
    """

    target: Reference
    patch: Object
    why: str
    announce: tuple[Announce, ...] = ()
    subresource: str = ""
    is_strategic: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this name *and* UID. A missing object counts as deleted.

    grace_seconds: the grace period of a pod. 0 forces the deletion, None uses the pod's own grace period.
    version: the resourceVersion that the object must still have; empty for any. If it differs, the next pass
    plans again. tallies: increments that are counted after success.
    """

    target: Reference
    propagation: Propagation
    why: str
    announce: tuple[Announce, ...] = ()
    grace_seconds: int | None = None
    version: str = ""
    tallies: tuple[Tally, ...] = ()


@dataclass(frozen=True, slots=True)
class SetOwner:
    """Add the owner to an object, or remove it if `is_owner` is false. Other owners stay.

    The object is read live, and written only if it has the same UID, is not terminating and has no other
    controller. If it changes meanwhile, nothing is written and the next pass plans again. `patch` holds other
    changes for the same write.
    """

    target: Reference
    owner: Object
    why: str
    is_owner: bool = True
    patch: Object = field(default_factory=dict)
    announce: tuple[Announce, ...] = ()


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add a finalizer to an object, or remove it if `is_there` is false. Other finalizers stay.

    The object is read live. A finalizer cannot be added to a terminating object, and counts as removed if the
    object is missing. If the object changes meanwhile, nothing is written and the next pass plans again.
    `patch` holds other changes for the same write.
    """

    target: Reference
    finalizer: str
    why: str
    is_there: bool = True
    patch: Object = field(default_factory=dict)
    announce: tuple[Announce, ...] = ()


Action = Apply | Create | Merge | SetOwner | SetFinalizer | Delete


def target_of(action: Action) -> Reference:
    """Return a reference to the object that an action writes."""
    return Reference.to(action.intent) if isinstance(action, Apply | Create) else action.target


@dataclass(frozen=True, slots=True)
class Status:
    """A JSON merge patch of the status, guarded by the UID and planned only if it changes the status.

    can_wait: whether it may be batched with later statuses. is_first: whether it is the first status of its
    target, which only reports that creation has begun; it may be batched with the result of the creation.
    before: the status that the patch is based on. If the stored status was another one, a further pass runs;
    None skips the check. only_after_failure: whether it is written only if another write of the plan fails.
    Otherwise the next pass reports more.
    """

    target: Reference
    patch: Object
    announce: tuple[Announce, ...] = ()
    can_wait: bool = False
    is_first: bool = False
    before: Object | None = None
    only_after_failure: bool = False


@dataclass(frozen=True, slots=True)
class Postponable:
    """Actions that may wait, if `target` was written a moment ago, to be batched with later ones."""

    target: Reference
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why an object of an owner cannot be written.

    reason: one word, such as NameClash or QuotaExceeded. is_reported: whether an Event has already reported
    the problem. action: the `action` of Events about the problem.
    """

    reason: str
    message: str
    is_reported: bool = False
    action: str = "Create"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one pass does, or a part of it.

    sequences: independent rows of actions. Each runs in order and stops at its first failure. statuses:
    written last, even after failures. announce: Events that no write carries, such as a rejection or a wait.
    again_after: the seconds until the next pass, if no event triggers it. waiting_for: what the pass waits
    for, as a phrase for the log. stuck_pods: the number of pods stuck in Terminating on lost nodes. problems:
    what the caller reports in a condition or an Event. postponable: the actions in `sequences` that may be
    delayed. standing: the states of the owner, by which metrics count owners. figures: the gauges of the
    owner. is_left_alone: whether the owner is only reported on, so that metrics do not show it. owner: the
    workload that the plan is for. Its status reports rejected writes.
    """

    sequences: tuple[tuple[Action, ...], ...] = ()
    statuses: tuple[Status, ...] = ()
    announce: tuple[Announce, ...] = ()
    again_after: float | None = None
    waiting_for: str = ""
    stuck_pods: int = 0
    problems: tuple[Problem, ...] = ()
    postponable: tuple[Postponable, ...] = ()
    standing: frozenset[str] = frozenset()
    figures: Figures | None = None
    is_left_alone: bool = False
    owner: Reference | None = None

    @property
    def is_empty(self) -> bool:
        """Whether carrying out the plan would write nothing."""
        return not (any(self.sequences) or self.statuses or self.announce)


_NOTHING = Plan()


def merge_plans(*parts: Plan) -> Plan:
    """Combine parts into one plan, in their order."""
    # Most parts of most passes are empty.
    parts = tuple(part for part in parts if part != _NOTHING)
    if not parts:
        return _NOTHING
    return Plan(
        sequences=tuple(sequence for part in parts for sequence in part.sequences if sequence),
        statuses=tuple(status for part in parts for status in part.statuses),
        announce=tuple(announce for part in parts for announce in part.announce),
        again_after=soonest(part.again_after for part in parts),
        waiting_for="; ".join(part.waiting_for for part in parts if part.waiting_for),
        stuck_pods=sum(part.stuck_pods for part in parts),
        problems=tuple(problem for part in parts for problem in part.problems),
        postponable=tuple(postponable for part in parts for postponable in part.postponable),
        standing=frozenset().union(*(part.standing for part in parts)),
        figures=next((part.figures for part in parts if part.figures is not None), None),
        is_left_alone=any(part.is_left_alone for part in parts),
        owner=next((part.owner for part in parts if part.owner is not None), None),
    )


def soonest(waits: Iterable[float | None]) -> float | None:
    """Return the shortest of these waits in seconds; None if there is none."""
    return min((wait for wait in waits if wait is not None), default=None)


# --- Types that the kinds of workload share with the queue.


class Key(NamedTuple):
    """A queue key: the kind of pass, unique among all kinds of workload, and the object to reconcile."""

    kind: str
    namespace: str
    name: str


Wake = tuple[Key, float]
"""A pass that a change starts, and the seconds by which the pass may be delayed."""

Route = Callable[[Object | None, Object | None], Iterable[Wake]]
"""A function from an object before and after a change (None if it does not exist) to the passes to start."""
