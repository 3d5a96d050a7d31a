"""The vocabulary of plans: what a pass may want done to the cluster, as data.

In: nothing. Out: frozen actions that `lws.runtime.apply` carries out, and that tests and stories can
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

# --- What metrics show and count of a workload, as data of plans.


ROLLING = "rolling"
"""1 while a rollout is under way, else 0. Every kind of workload uses this word for it."""


@dataclass(frozen=True, slots=True)
class Tally:
    """One more of something, counted once the write that it stands at is done. kind, name: of the workload.
    label: which of its kind, such as the reason.
    """

    kind: str
    name: str
    word: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers of a workload, or a part of it, until the next pass over the same key.

    kind, name: of the workload. numbers: by word and label; those of the parts of a workload are added up.
    revision: the wanted one, empty where nothing says. rolling_since: when the rollout under way began (RFC
    3339), empty where nothing says. groups: by UID of the leader pod, when it was created (RFC 3339) if its
    group is ready, else empty.
    """

    kind: str
    name: str
    numbers: Mapping[tuple[str, str], float]
    revision: str = ""
    rolling_since: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)


Object = Mapping[str, Any]
"""One Kubernetes object (or a part of one) as plain JSON data; never changed in place."""

EventType = Literal["Normal", "Warning"]
Propagation = Literal["Foreground", "Background", "Orphan"]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """JSON text that must reach the API server byte for byte (ControllerRevision.data)."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Names one object; with `uid` it can only ever mean that very object."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def to(cls, obj: Object) -> Reference:
        """The reference of an object as the API server returned it."""
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
    """How an Event joins others of its kind that come with it: `template` takes the names of all members at
    its {}. related: what all members belong to. change: the counts that the member had and is to have: of
    several changes the first and the last count are told. waits: not even the first few of its kind are told
    one by one.
    """

    template: str
    member: str
    related: Reference | None = None
    change: tuple[int, int] | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Announce:
    """A Kubernetes Event (events.k8s.io/v1), emitted after the write that it speaks of.

    fold: where many of its kind come together, it may be told with others, a little later. once: every pass
    says it for as long as it is so, and users hear it once from each manager. ends: what still waits to be
    told of the object comes before it.
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
    """Server-side apply of the whole intent, field manager `lws`.

    `uid` is that of the object that the plan has seen: empty means that there was none, and then the apply is
    not forced, so that it cannot take fields from a stranger that appeared meanwhile. `failure` is announced
    with the error appended to its note. is_rehearsal: a dry run, before something goes that only what is
    applied brings back; nothing is stored.
    """

    intent: Object
    why: str
    uid: str = ""
    announce: tuple[Announce, ...] = ()
    failure: Announce | None = None
    is_rehearsal: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Create if absent.

    An object of the name counts as done if it is the very thing: same controller by UID, not going, with the
    labels and the verbatim data of the intent. Any other is an error, and in the snapshot of the next pass.
    """

    intent: Object
    why: str
    announce: tuple[Announce, ...] = ()
    failure: Announce | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """A small JSON merge patch (RFC 7386) on an object that we control, guarded by its UID.

    subresource: `status` for what must be remembered before the next action of the sequence; whatever else a
    status says is a `Status`.
    """

    target: Reference
    patch: Object
    why: str
    announce: tuple[Announce, ...] = ()
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this name *and* UID; a missing object counts as deleted.

    grace_seconds: what is left to a pod to end; 0 waits for no kubelet. None: as the pod says. tallies: what
    is counted once it is done.
    """

    target: Reference
    propagation: Propagation
    why: str
    announce: tuple[Announce, ...] = ()
    grace_seconds: int | None = None
    tallies: tuple[Tally, ...] = ()


@dataclass(frozen=True, slots=True)
class SetOwner:
    """Give an object an owner, or take it away; all other owners stay.

    Carried out on the object as a read past every cache shows it at that moment, and only where this is still
    the very object, is not being deleted and has no other controller. If it is changed meanwhile,
    nothing is written, and the next pass looks again.

    owner: the whole reference. is_owner: whether it is to be there. patch: what the same write changes beside
    the owners.
    """

    target: Reference
    owner: Object
    why: str
    is_owner: bool = True
    patch: Object = field(default_factory=dict)
    announce: tuple[Announce, ...] = ()


Action = Apply | Create | Merge | SetOwner | Delete


@dataclass(frozen=True, slots=True)
class Status:
    """A JSON merge patch of the status subresource, guarded by the UID; planned only where it changes it.

    can_wait: nobody waits for it, and more of its kind may follow. is_first_word: the first of its target,
    which says only what is on its way; what comes of that may be told with it. before: the status that the
    patch was made for; where another one was there, the next pass looks at what came of it. None: never.
    only_after_failure: not written where all else of the plan succeeds; the next pass says more then.
    """

    target: Reference
    patch: Object
    announce: tuple[Announce, ...] = ()
    can_wait: bool = False
    is_first_word: bool = False
    before: Object | None = None
    only_after_failure: bool = False


@dataclass(frozen=True, slots=True)
class Postponable:
    """Actions of a plan that can wait where `target`, to which they lead, was written a moment ago: more of
    their kind may follow, and come with them.
    """

    target: Reference
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps an owner from getting an object.

    reason: one word, such as NameClash or QuotaExceeded. is_reported: an Event has said so already. action:
    what was tried, as Events name it.
    """

    reason: str
    message: str
    is_reported: bool = False
    action: str = "Create"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one pass wants, or one part of it.

    sequences: within one, in order, stop at the first failure; each on its own.
    statuses: written last, whatever happened above.
    announce: what users are told without any write (a refusal, a wait).
    again_after: seconds until the next pass; for waiting that no event will end.
    stuck_pods: pods that a lost node keeps from going.
    problems: what stands in the way; told in a condition or an Event by the caller.
    postponable: which of the actions in `sequences` can wait.
    standing: words for how its owner stands, which metrics count owners by. figures: how it stands in
    numbers, which metrics show.
    owner: the workload that the plan is for, whichever object the pass looks at: its status reports
    what is refused.
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
    owner: Reference | None = None

    @property
    def is_empty(self) -> bool:
        """True when carrying the plan out would write nothing."""
        return not (any(self.sequences) or self.statuses or self.announce)


_NOTHING = Plan()


def together(*parts: Plan) -> Plan:
    """One plan of all parts, in their order."""
    # Most parts of most passes want nothing.
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
        owner=next((part.owner for part in parts if part.owner is not None), None),
    )


def soonest(waits: Iterable[float | None]) -> float | None:
    """The shortest of these waits, None where nothing is waited for."""
    return min((each for each in waits if each is not None), default=None)


# --- Types shared by kinds of workload and the queue.


class Key(NamedTuple):
    """Identifies a pass. kind: of pass, unique among all kinds of workload. name: of an object."""

    kind: str
    namespace: str
    name: str


Wake = tuple[Key, float]
"""A pass that a change starts, and the seconds by which it may be delayed."""

Route = Callable[[Object | None, Object | None], Iterable[Wake]]
"""(before, after) of an object, None if it does not exist → the passes to start."""
