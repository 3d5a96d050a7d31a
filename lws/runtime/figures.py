"""What metrics show and count of a workload, as data of plans.

In: nothing. Out: frozen values. The words in them are those that the registration of the kind gives a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """How a workload stands, or a part of it, until the next pass over the same key.

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
