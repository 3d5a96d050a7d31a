"""Conditions of a status: find one, set one, remove one, with one rule for when a transition time moves.

In: a stored list of metav1.Condition as plain JSON data, and what is to be true now. Out: new lists; the
stored one is never changed, and conditions of other writers stay as they are.
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
    # No generator: this is asked for every pod in every pass.
    for condition in conditions or ():
        if condition.get("type") == type_:
            return condition
    return None


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """True if a condition of this type is stored and its status is True; Unknown counts as not true."""
    found = find(conditions, type_)
    return found is not None and found.get("status") == "True"


def is_false(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> bool:
    """True if a condition of this type is stored and its status is False; Unknown and absent are neither."""
    found = find(conditions, type_)
    return found is not None and found.get("status") == "False"


def with_condition(
    conditions: Iterable[Mapping[str, Any]] | None, wanted: Condition, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """All conditions, with `wanted` replacing the stored one of its type, or appended.

    generation: of the object that `wanted` speaks of. `lastTransitionTime` becomes `now` only if the status
    changes (rule of metav1.Condition); a new reason, message or generation alone does not move it.
    """
    stored = [dict(each) for each in conditions or ()]
    status = "True" if wanted.is_true else "False"
    said = {
        "status": status,
        "reason": wanted.reason,
        "message": wanted.message,
        "observedGeneration": generation,
    }
    for condition in stored:
        if condition.get("type") == wanted.type:
            if condition.get("status") != status or not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = timestamp(now)
            condition.update(said)
            return stored
    return [*stored, {"type": wanted.type, **said, "lastTransitionTime": timestamp(now)}]


def without_condition(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> list[dict[str, Any]]:
    """All conditions but the one of this type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type_]


def timestamp(moment: datetime) -> str:
    """An aware moment as metav1.Time writes it: RFC 3339, UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str | None) -> datetime | None:
    """Parse a timestamp, in UTC; None if it is missing or invalid."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None


FAILED_CREATE = "FailedCreate"

# Parts of what the API server and its admission plugins say (Kubernetes 1.36), the first that fits counts.
KNOWN = (
    ("exceeded quota", "QuotaExceeded"),
    ("failed quota", "QuotaExceeded"),
    ("looking up service account", "ServiceAccountMissing"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
    ("violates PodSecurity", "AdmissionDenied"),
    ("failed calling webhook", "WebhookFailed"),
)
"""What is found in a refusal → one word."""
ADMISSION_WORDS = ("denied the request", "denied request", "failed calling webhook")
"""What is found where a policy or a webhook refuses, whatever the status."""


def reason_of(words: str, otherwise: str) -> str:
    """The API server's reason in one word; `otherwise` if it gives none."""
    return next((reason for part, reason in KNOWN if part in words), otherwise)


@dataclass(frozen=True, slots=True)
class Obstruction:
    """A rejection. subject: the affected object, as the start of a sentence. words: the API server's
    message.

    is_reported: an Event about the set has said so already. action: what was tried, as Events name it.
    """

    subject: str
    words: str
    is_reported: bool = False
    otherwise: str = FAILED_CREATE
    action: str = "Create"

    @property
    def reason(self) -> str:
        """One word; `otherwise` if the API server gives none."""
        return reason_of(self.words, self.otherwise)

    @property
    def message(self) -> str:
        """The whole sentence."""
        return f"{self.subject}: {self.words}"
