"""Find, set and remove conditions in a status, with one rule for transition times.

The functions return new lists of metav1.Condition and keep the conditions of other writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import timing


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its transition time, which callers do not choose."""

    type: str
    is_true: bool
    reason: str
    message: str


def find(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> Mapping[str, Any] | None:
    """Return the stored condition of the given type, or None."""
    # A loop and not a generator, because this runs for every pod in every pass.
    for condition in conditions or ():
        if condition.get("type") == type_:
            return condition
    return None


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """Return whether the condition of the given type is stored with status True. Unknown does not count."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == "True"


def becomes_true(
    type_: str, before: Iterable[Mapping[str, Any]] | None, after: Iterable[Mapping[str, Any]] | None
) -> Mapping[str, Any] | None:
    """Return the condition of the given type if it is true now and was not before; otherwise None."""
    is_new = is_true(after, type_) and not is_true(before, type_)
    return find(after, type_) if is_new else None


def is_false(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """Return whether the condition of the given type is stored with status False. Unknown does not count."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == "False"


def with_condition(
    conditions: Iterable[Mapping[str, Any]] | None, desired: Condition, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions with `desired` in place of the stored one of its type, or appended.

    generation: the observedGeneration. now: the new `lastTransitionTime` if the status changes; a new reason,
    message or generation does not change it (rule of metav1.Condition).
    """
    stored = [dict(condition) for condition in conditions or ()]
    status = "True" if desired.is_true else "False"
    fields = {
        "status": status,
        "reason": desired.reason,
        "message": desired.message,
        "observedGeneration": generation,
    }
    for condition in stored:
        if condition.get("type") == desired.type:
            if condition.get("status") != status or not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = timestamp(now)
            condition.update(fields)
            return stored
    return [*stored, {"type": desired.type, **fields, "lastTransitionTime": timestamp(now)}]


def without_condition(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> list[dict[str, Any]]:
    """Return all conditions except the one of the given type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type_]


def timestamp(moment: datetime) -> str:
    """Format an aware time as metav1.Time: RFC 3339 in UTC, with whole seconds and `Z`."""
    # Not strftime: it does not pad years.
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


_YEARS = range(1000, 9000)


def moment_of(text: str | None) -> datetime | None:
    """Parse a timestamp into a time in UTC; return None if it is missing, invalid or centuries away. Clients
    can store any year, and the sum of a time and a duration must not leave the calendar.
    """
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None
    return moment if moment is not None and moment.year in _YEARS else None


def elapsed(since: datetime, now: datetime) -> timedelta:
    """Return the time since a moment, both by the clock of the API server.

    If the moment is ahead by more than clocks differ, the clock was set back since then. Nobody knows when
    that was, so nothing may wait for it any longer.
    """
    return timedelta.max if since - now > timedelta(seconds=timing.SKEW_SECONDS) else now - since


FAILED_CREATE = "FailedCreate"

# Parts of messages from the API server and its admission plugins (Kubernetes 1.36). The first match decides.
KNOWN = (
    ("exceeded quota", "QuotaExceeded"),
    ("failed quota", "QuotaExceeded"),
    ("looking up service account", "ServiceAccountMissing"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
    ("violates PodSecurity", "AdmissionDenied"),
    ("failed calling webhook", "WebhookFailed"),
)
"""Part of a rejection message → reason."""
ADMISSION_WORDS = ("denied the request", "denied request", "failed calling webhook")
"""Parts of rejection messages from a policy or webhook, which may reject with any HTTP status."""


def reason_of(words: str, otherwise: str) -> str:
    """Return the one-word reason of a rejection message; `otherwise` if the message has no known part."""
    return next((reason for part, reason in KNOWN if part in words), otherwise)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected request.

    subject: the affected object, as the start of a sentence. words: the message of the API server.
    is_reported: whether an Event about the set has already reported it. otherwise: the reason if the message
    contains no known part. action: the `action` of Events about it. kind: what we tried to write; empty for
    another client's write.
    """

    subject: str
    words: str
    is_reported: bool = False
    otherwise: str = FAILED_CREATE
    action: str = "Create"
    kind: str = ""

    @property
    def reason(self) -> str:
        return reason_of(self.words, self.otherwise)

    @property
    def message(self) -> str:
        return f"{self.subject}: {self.words}"
