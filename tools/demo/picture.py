"""Compute the visible state of a set: rows, conditions, Events and counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tools.demo.facts import Group, Kind, Object, SetFacts, View, set_of, time_of

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventLine:
    """One Event about the set: seconds since it was last seen, and how often it was seen."""

    age: float
    is_warning: bool
    reason: str
    note: str
    count: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The visible state of a set: no facts while none exists, and the Events, newest first."""

    facts: SetFacts | None
    groups: tuple[Group, ...]
    pods_ready: int
    events: tuple[EventLine, ...]
    now: datetime

    @property
    def groups_ready(self) -> int:
        """The number of groups whose pods are all ready, whatever the status says."""
        return sum(group.is_ready for group in self.groups)


def picture_of(view: View, now: datetime) -> Picture:
    """Return the picture of the newest set, or of the objects that the last set left."""
    by_age = sorted(view.objects[Kind.SET], key=lambda lws: str(lws["metadata"]["creationTimestamp"]))
    facts = set_of(by_age[-1]) if by_age else None
    pods = view.pods(facts.name) if facts is not None else ()
    events = (event for event in view.objects[Kind.EVENT] if _is_about(event, facts))
    newest_first = sorted(events, key=_seen_at, reverse=True)
    return Picture(
        facts=facts,
        groups=view.groups(facts.name) if facts is not None else (),
        pods_ready=sum(pod.is_ready for pod in pods),
        events=tuple(_line(event, now) for event in newest_first),
        now=now,
    )


def summary(picture: Picture) -> str:
    """Return the picture in one line, without anything that changes only with time."""
    facts = picture.facts
    if facts is None:
        return "no LeaderWorkerSet"
    true = [condition.type for condition in facts.conditions if condition.is_true]
    return (
        f"groups ready {picture.groups_ready}/{facts.replicas}, up to date {facts.updated}/{facts.replicas}, "
        f"{' '.join(true) or 'no condition yet'}"
    )


def clock(seconds: float) -> str:
    """Format a duration: 0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def short(seconds: float) -> str:
    """Format an age as kubectl does: 42s, 3m10s, 2h5m."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _is_about(event: Object, facts: SetFacts | None) -> bool:
    regarding = event.get("regarding") or {}
    if regarding.get("kind") != Kind.SET:
        return False
    return facts is None or regarding.get("uid") == facts.uid


def _line(event: Object, now: datetime) -> EventLine:
    return EventLine(
        age=(now - _seen_at(event)).total_seconds(),
        is_warning=event.get("type") == "Warning",
        reason=str(event.get("reason", "")),
        note=str(event.get("note", "")),
        count=int((event.get("series") or {}).get("count", 1)),
    )


def _seen_at(event: Object) -> datetime:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
    return time_of(text) if text else _LONG_AGO
