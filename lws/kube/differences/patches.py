"""Which patch leads from one JSON document to another?

In: both documents. Out: a merge patch (RFC 7386), or the operations of a JSON Patch (RFC 6902); none where
they are equal. Of one document and a merge patch: the other document, and whether it can be that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to merge into `before` to get `after`: objects field by field, everything else as a whole.

    None stands for a field that goes; `after` itself holds none, which such a patch could not express.
    """
    # Most are equal, and that is seen far sooner than field by field.
    if before == after:
        return None
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


def with_merged(document: Any, patch: Any) -> Any:
    """What a server that merges the patch (RFC 7386) into a document stores; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    known = document if isinstance(document, Mapping) else {}
    merged = {
        field: value for field, value in known.items() if field not in patch or patch[field] is not None
    }
    given = {field: value for field, value in patch.items() if value is not None}
    return {**merged, **{field: with_merged(known.get(field), value) for field, value in given.items()}}


def is_merged_into(before: Mapping[str, Any], patch: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether `after` can be what a server stores that merges the patch into `before`: all that the patch
    does not speak of is the same.

    What it speaks of is not compared: a server may prune that, or write it in another way. What is None in
    `before` can be anything.
    """
    for field in before.keys() | after.keys():
        known, stored = before.get(field), after.get(field)
        if field not in patch:
            is_kept = known == stored or (field in before and known is None)
        elif isinstance(patch[field], Mapping) and isinstance(known, Mapping):
            is_kept = is_merged_into(known, patch[field], stored if isinstance(stored, Mapping) else {})
        else:
            is_kept = True
        if not is_kept:
            return False
    return True


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[Operation]:
    """Add, remove and replace operations, each valid once those before it are carried out; quick where
    documents differ in a few places. path: of both, a JSON Pointer.
    """
    if before is after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_mappings(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _of_mappings(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Operation]:
    for key, value in before.items():
        below = f"{path}/{_escaped(key)}"
        if key in after:
            yield from json_patch(value, after[key], below)
        else:
            yield {"op": "remove", "path": below}
    for key, value in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Operation]:
    """What both begin and end with stays; between that all is added or removed, or one stands for one."""
    if len(before) == len(after):
        for index, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from json_patch(one, two, f"{path}/{index}")
        return
    shortest = min(len(before), len(after))
    start = next((index for index in range(shortest) if before[index] != after[index]), shortest)
    end = next((index for index in range(shortest - start) if before[-1 - index] != after[-1 - index]), None)
    kept = shortest - start if end is None else end
    if start + kept == len(before):
        for index in range(start, len(after) - kept):
            yield {"op": "add", "path": f"{path}/{index}", "value": after[index]}
    elif start + kept == len(after):
        for _ in range(len(before) - len(after)):
            yield {"op": "remove", "path": f"{path}/{start}"}
    else:
        yield {"op": "replace", "path": path, "value": after}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
