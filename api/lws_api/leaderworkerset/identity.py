"""Values of the fields that say how groups are named and replaced (upstream 0.11)."""

from __future__ import annotations

from enum import StrEnum


class GroupIdentity(StrEnum):
    ORDINAL = "Ordinal"
    HASH = "Hash"


class GroupReplacementPolicy(StrEnum):
    IMMEDIATE = "Immediate"
    POST_TERMINATION = "PostTermination"
