"""Generate values for a structural schema: mostly valid ones, and some invalid ones.

These are plain functions on hypothesis' `draw`: creating a strategy for each node of a schema would take
longer than drawing from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from lws_api.leaderworkerset import v1

Schema = Mapping[str, Any]

_OURS = sorted(value for name, value in vars(v1).items() if name.endswith(("_LABEL", "_ANNOTATION", "_ENV")))
WORDS = st.sampled_from(
    [
        *("", "a", "app", "main", "data", "x-0", "x-1-1", "0", "1", "-1", "007", "true", "null", "None"),
        *("Always", "Never", "Default", "Delete", "Retain", "In", "Exists", "NoSchedule", "ReadWriteOnce"),
        *("50%", "0%", "100%", "101%", "-1%", "1.5%", "9" * 5000 + "%", "1Gi", "100m", "0.5", "1e3", "-1Gi"),
        *("1e999999999", "9" * 400, "1e-400", "nan", "inf", "0x10", "1_000", " 1", "١"),
        *("kubernetes.io/hostname", "topology.kubernetes.io/zone", "google.com/tpu", "not/a/key", "UPPER"),
        *("a" * 64, "a" * 254, "a.b", "ä", "💥", "\x00", "\n", '"', "\\", "$(LWS_LEADER_ADDRESS)", "<b>&"),
        *("2024-01-01T00:00:00Z", "SGVsbG8=", "/", "../..", "10.0.0.1", "http://x"),
        *_OURS,
    ]
)
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 80, 420, 8471, 65536, 10**6, 2**31 - 1, -1])
_MISFITS = st.sampled_from(
    [None, True, 0, -1, 2**31, 2**63, 10**30, 1.5, "", "x", "\ud83d\udca5", [], [None], {}, {"x": 1}]
)
# One in twenty values is invalid: with more, the schema would reject nearly every object.
_DIE = st.integers(0, 19)
_COUNTS = [st.integers(0, most) for most in range(4)]
_BOOLEANS = st.booleans()
_DEEDS = st.sampled_from(["descend", "descend", "descend", "replace", "remove"])
_MOST_FIELDS, _MOST_ITEMS, _DEEPEST = 3, 2, 12


def a_value(draw: DrawFn, schema: Schema, depth: int = 0) -> Any:
    """Return a value for a schema."""
    if draw(_DIE) == 19:
        return draw(_MISFITS)
    if "enum" in schema:
        return _one(draw, tuple(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(NUMBERS if draw(_BOOLEANS) else WORDS)
    match schema.get("type"):
        case "object":
            return _an_object(draw, schema, depth)
        case "array":
            count = draw(_COUNTS[_MOST_ITEMS if depth < _DEEPEST else 0])
            return [a_value(draw, schema["items"], depth + 1) for _ in range(count)]
        case "integer":
            return draw(NUMBERS)
        case "boolean":
            return draw(_BOOLEANS)
        case "string":
            return draw(WORDS)
    return draw(_MISFITS)


def _an_object(draw: DrawFn, schema: Schema, depth: int) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if not properties:
        inner = schema.get("additionalProperties", {"type": "string"})
        count = draw(_COUNTS[_MOST_ITEMS])
        return {draw(WORDS): a_value(draw, inner, depth + 1) for _ in range(count)}
    count = draw(_COUNTS[_MOST_FIELDS if depth < _DEEPEST else 0])
    names = (*schema.get("required", ()), *(_one(draw, tuple(properties)) for _ in range(count)))
    return {name: a_value(draw, properties[name], depth + 1) for name in names}


def disturbed(draw: DrawFn, obj: Any, schema: Schema) -> Any:
    """Return `obj` with one value below it replaced, added or removed."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if isinstance(obj, list) and obj and "items" in schema:
        index = _one(draw, tuple(range(len(obj))))
        item = disturbed(draw, obj[index], schema["items"])
        return [*obj[:index], item, *obj[index + 1 :]]
    if not isinstance(obj, dict) or not properties:
        return a_value(draw, schema)
    # Existing fields matter more than the hundred absent ones.
    existing = tuple(name for name in properties if name in obj)
    name = _one(draw, existing if existing and draw(_BOOLEANS) else tuple(properties))
    deed = draw(_DEEDS)
    if deed == "remove":
        return {key: value for key, value in obj.items() if key != name}
    if deed == "replace" or name not in obj:
        return {**obj, name: a_value(draw, properties[name])}
    return {**obj, name: disturbed(draw, obj[name], properties[name])}


@cache
def _choice(values: tuple[Any, ...]) -> SearchStrategy[Any]:
    return st.sampled_from(values)


def _one(draw: DrawFn, values: tuple[Any, ...]) -> Any:
    return draw(_choice(values))
