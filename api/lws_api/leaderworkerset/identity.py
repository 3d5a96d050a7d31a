"""How groups are named and replaced: values of fields that the original has since release 0.11.

In: what users write. Out: the words of the API. Which of them are acted on is the controller's to say.
"""

from __future__ import annotations

from enum import StrEnum


class GroupIdentity(StrEnum):
    ORDINAL = "Ordinal"
    HASH = "Hash"


class GroupReplacementPolicy(StrEnum):
    IMMEDIATE = "Immediate"
    POST_TERMINATION = "PostTermination"
