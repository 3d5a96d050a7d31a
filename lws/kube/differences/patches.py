"""Which JSON merge patch leads from one object to another?

In: two JSON objects. Out: the smallest patch (RFC 7386), None where they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to merge into `before` to get `after`: objects field by field, everything else as a whole.

    None stands for a field that goes; `after` itself holds none, which such a patch could not express.
    """
    patch: dict[str, Any] = {field: None for field in before if field not in after}
    for field, value in after.items():
        known = before.get(field)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(known, value)
            if inner is not None:
                patch[field] = inner
        elif field not in before or known != value:
            patch[field] = value
    return patch or None
