"""What did the API server not let anybody make, and what kind of trouble is that?

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


@dataclass(frozen=True, slots=True)
class Obstruction:
    """A refusal. subject: who or what met it, the beginning of a sentence. words: those of the API server.

    is_reported: an Event about the set has said so already.
    """

    subject: str
    words: str
    is_reported: bool = False
    otherwise: str = FAILED_CREATE

    @property
    def reason(self) -> str:
        """One word; `otherwise` where nothing tells more."""
        return next((reason for part, reason in KNOWN if part in self.words), self.otherwise)

    @property
    def message(self) -> str:
        """The whole sentence."""
        return f"{self.subject}: {self.words}"
