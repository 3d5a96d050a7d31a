"""Label selectors: the structured form of the API, as the text that a query takes.

In: a LabelSelector (meta/v1) as plain JSON data. Out: what `labelSelector=` of a list or a watch says, so
that the API server does the matching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def as_query(selector: Mapping[str, Any]) -> str:
    """The selector as text; empty for one that selects everything.

    Raises ValueError for an operator that the API does not have: to leave it out would select more.
    """
    return ",".join(_requirements(selector))


def _requirements(selector: Mapping[str, Any]) -> Iterator[str]:
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        yield f"{key}={value}"
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(expression.get("values") or ())
        match operator:
            case "In":
                yield f"{key} in ({values})"
            case "NotIn":
                yield f"{key} notin ({values})"
            case "Exists":
                yield key
            case "DoesNotExist":
                yield f"!{key}"
            case _:
                raise ValueError(f"label selectors have no operator {operator!r}")
