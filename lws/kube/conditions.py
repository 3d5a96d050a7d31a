"""Find, set and remove conditions of a status, with one rule for transition times.

Functions return new lists of metav1.Condition, and keep conditions of other writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its transition time, which callers do not choose."""

    type: str
    is_true: bool
    reason: str
    message: str


def find(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> Mapping[str, Any] | None:
    """The stored condition of this type, or None."""
    # No generator: this is called for every pod in every pass.
    for condition in conditions or ():
        if condition.get("type") == type_:
            return condition
    return None


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """True if a condition of this type is stored and its status is True; Unknown counts as not true."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == "True"


def is_false(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """True if a condition of this type is stored and its status is False; Unknown and absent are neither."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == "False"


def with_condition(
    conditions: Iterable[Mapping[str, Any]] | None, desired: Condition, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """All conditions, with `desired` replacing the stored one of its type, or appended.

    generation: the observedGeneration. `lastTransitionTime` becomes `now` only if the status changes (rule of
    metav1.Condition), not for a new reason, message or generation.
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
    """All conditions but the one of this type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type_]


def timestamp(moment: datetime) -> str:
    """An aware time as metav1.Time: RFC 3339, UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str | None) -> datetime | None:
    """Parse a timestamp, in UTC; None if it is missing or invalid."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None


FAILED_CREATE = "FailedCreate"

# Parts of messages of the API server and its admission plugins (Kubernetes 1.36); the first match counts.
KNOWN = (
    ("exceeded quota", "QuotaExceeded"),
    ("failed quota", "QuotaExceeded"),
    ("looking up service account", "ServiceAccountMissing"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
    ("violates PodSecurity", "AdmissionDenied"),
    ("failed calling webhook", "WebhookFailed"),
)
"""Part of a rejection → reason."""
ADMISSION_WORDS = ("denied the request", "denied request", "failed calling webhook")
"""Parts of rejections by a policy or webhook, whose status may be any."""


def reason_of(words: str, otherwise: str) -> str:
    """The API server's reason in one word; `otherwise` if it gives none."""
    return next((reason for part, reason in KNOWN if part in words), otherwise)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejection. subject: the affected object, as the start of a sentence. words: the API server's
    message.

    is_reported: an Event about the set has reported it already. action: the `action` of Events about it.
    kind: of the object whose write was rejected; empty if that was no write of ours.
    """

    subject: str
    words: str
    is_reported: bool = False
    otherwise: str = FAILED_CREATE
    action: str = "Create"
    kind: str = ""

    @property
    def reason(self) -> str:
        """One word; `otherwise` if the API server gives none."""
        return reason_of(self.words, self.otherwise)

    @property
    def message(self) -> str:
        """The whole sentence."""
        return f"{self.subject}: {self.words}"
