"""What series need to know of the key of a pass.

In: nothing. Out: a type.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class PassKey(Hashable, Protocol):
    """What a pass is about. kind: of pass."""

    @property
    def kind(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...
