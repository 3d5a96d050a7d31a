"""Has a value the shape that the rules about pods read?

In: a path and what is there. Out: the value, something empty for null; a refusal for any other shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.admission.errors import Refused, rendered


def object_in(path: str, value: Any) -> Mapping[str, Any]:
    """`value` if it is an object, an empty one for null; anything else is refused."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(f"{path} must be an object, not {rendered(value)}")
    return value


def objects_in(path: str, value: Any) -> list[dict[str, Any]]:
    """`value` if it is a list of objects, an empty list for null; anything else is refused."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"{path} must be a list, not {rendered(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise Refused(f"{path}[{index}] must be an object, not {rendered(item)}")
    return value
