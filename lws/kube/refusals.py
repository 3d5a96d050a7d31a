"""What did the API server not let anybody write, and what kind of trouble is that?

In: the words of a refusal. Out: one word for programs.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """One word for what the API server says; `otherwise` where nothing tells more."""
    return next((reason for part, reason in KNOWN if part in words), otherwise)


@dataclass(frozen=True, slots=True)
class Obstruction:
    """A refusal. subject: who or what met it, the beginning of a sentence. words: those of the API server.

    is_reported: an Event about the set has said so already. action: what was tried, as Events name it.
    """

    subject: str
    words: str
    is_reported: bool = False
    otherwise: str = FAILED_CREATE
    action: str = "Create"

    @property
    def reason(self) -> str:
        """One word; `otherwise` where nothing tells more."""
        return reason_of(self.words, self.otherwise)

    @property
    def message(self) -> str:
        """The whole sentence."""
        return f"{self.subject}: {self.words}"
