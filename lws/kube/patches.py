"""Build the patch that leads from one JSON document to another.

Out: a merge patch (RFC 7386) or the operations of a JSON Patch (RFC 6902), none if the documents are equal;
the document to which a merge patch leads, and whether a document may be that; and whether a server-side apply
would change an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lws.kube import quantities
from lws.kube.metadata import is_mapping
from lws.kube.typed import POD_TYPES, Normaliser

Operation = dict[str, Any]


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """The merge patch from `before` to `after`: objects field by field, everything else as a whole.

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
    """The document after a server merged the patch (RFC 7386); neither argument is changed."""
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
    """Keep the common start and end of both lists; between them, add, remove or replace elements."""
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


Path = tuple[str, ...]

# Fields of a pod template whose strings are quantities: the API server stores them in its own spelling.
_QUANTITY_FIELDS = frozenset({"limits", "requests", "overhead", "capacity", "sizeLimit", "divisor"})

_TYPED = Normaliser(POD_TYPES)


def changed_paths(
    intent: Mapping[str, Any],
    stored: Mapping[str, Any],
    manager: str,
    is_tolerated: Callable[[Path], bool] = lambda path: False,
) -> list[Path]:
    """Paths at which an apply of `intent` by `manager` would change `stored`, none if it is not needed.

    An apply that changes nothing still costs a request, and the StatefulSet controller a look at all pods.

    A path differs if its intended value is not the stored one, or if the manager's own apply entry in
    managedFields has it and the intent has not (the apply would remove it). A path that the manager owns but
    that the object has not was dropped by the server, a feature gate say: applying it again would not bring
    it back.

    is_tolerated: paths that may stay although they are not intended any more.
    """
    intent, owned = _as_stored(intent), _owned_fields(stored, manager)
    found = [*_unlike(intent, stored, owned, ())]
    return found + [path for path in _abandoned(owned, intent, stored, ()) if not is_tolerated(path)]


def was_dropped_below(intent: Mapping[str, Any], stored: Mapping[str, Any], manager: str, path: Path) -> bool:
    """Whether the server dropped something that is intended below this path, a feature gate being closed.

    Once the gate is open, an apply of the same intent would bring it.
    """
    wanted, actual, owned = _as_stored(intent), stored, _owned_fields(stored, manager)
    for part in path:
        wanted, actual, owned = wanted.get(part) or {}, actual.get(part) or {}, owned.get(f"f:{part}") or {}
    # What differs, but not if fields that are owned may be missing.
    return next(_unlike(wanted, actual, {}, path), None) is not None and (
        next(_unlike(wanted, actual, owned, path), None) is None
    )


def is_owned(stored: Mapping[str, Any], manager: str, path: Path) -> bool:
    """Whether an apply of the manager without this path would take it off: no list may be on the way."""
    owned: Mapping[str, Any] | None = _owned_fields(stored, manager)
    for part in path:
        owned = owned.get(f"f:{part}") if owned is not None else None
    return owned is not None


def merge_patch_of(intent: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any] | None:
    """The JSON merge patch that brings just these paths of the intent; None where one is part of a list."""
    patch: dict[str, Any] = {}
    for path in paths:
        value: Any = intent
        inner = patch
        for part in path[:-1]:
            value = value.get(part) if isinstance(value, Mapping) else None
            inner = inner.setdefault(part, {})
        value = value.get(path[-1]) if isinstance(value, Mapping) else None
        if isinstance(value, list) or any(part.isdigit() or part.startswith("{") for part in path):
            return None
        inner[path[-1]] = value
    return patch


def covers(intent: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True if the stored object has every intended value, regardless of owner, and lists hold no more."""
    return next(_unlike(intent, stored, {}, ()), None) is None


def digest(intent: Mapping[str, Any]) -> str:
    """A short fingerprint of an intent: equal for equal intents."""
    return hashlib.sha256(json.dumps(intent, sort_keys=True).encode()).hexdigest()[:16]


def _as_stored(intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """The intent without zero values that the API server drops from a pod template.

    A zero that it keeps (`runAsUser: 0`) stays: where that is missing, something is missing.
    """
    spec = intent.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("template"), Mapping):
        return intent
    return {**intent, "spec": {**spec, "template": _TYPED.write("PodTemplateSpec", spec["template"])}}


def _owned_fields(stored: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
    for entry in stored["metadata"].get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return {}


def _unlike(wanted: Any, actual: Any, owned: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if is_mapping(wanted) and is_mapping(actual):
        for key, value in wanted.items():
            if key not in actual:
                if owned.get(f"f:{key}") is None and not _is_nothing(value):
                    yield (*path, key)
            # Most of what is compared is text that is the same.
            elif type(value) is not str or value != actual[key]:
                yield from _unlike(value, actual[key], owned.get(f"f:{key}") or {}, (*path, key))
    elif isinstance(wanted, Sequence) and isinstance(actual, Sequence) and not isinstance(wanted, str):
        yield from _unlike_lists(wanted, actual, owned, path)
    elif wanted is not None and not _is_same_scalar(wanted, actual, path):
        yield path


def _unlike_lists(
    wanted: Sequence[Any], actual: Sequence[Any], owned: Mapping[str, Any], path: Path
) -> Iterator[Path]:
    if path[-1:] == ("ownerReferences",):
        # Others may add references of their own.
        by_uid = {reference["uid"]: reference for reference in actual}
        for reference in wanted:
            yield from _unlike(reference, by_uid.get(reference["uid"], {}), {}, path)
        return
    selected = _selected(owned, actual)
    ours = {id(element): owned[selector] for selector, found in selected.items() for element in found}
    if selected:
        # So they may to a list that is merged by keys; an apply leaves elements alone that it does not own.
        actual = [element for element in actual if id(element) in ours]
    if len(wanted) != len(actual):
        yield path
        return
    for position, (one, two) in enumerate(zip(wanted, actual, strict=True)):
        yield from _unlike(one, two, ours.get(id(two), {}), (*path, str(position)))


def _abandoned(owned: Mapping[str, Any], intent: Any, stored: Any, path: Path) -> Iterator[Path]:
    for selector, below in owned.items():
        kind, _, rest = selector.partition(":")
        if kind == "k":
            # The owner of an element owns none of the fields that objects have.
            yield from _abandoned_elements(owned, intent, stored, path)
            return
        if kind == "f":
            actual = stored.get(rest) if is_mapping(stored) else None
            if not is_mapping(intent) or rest not in intent:
                if not _is_nothing(actual):
                    yield (*path, rest)
            elif below:
                yield from _abandoned(below, intent[rest], actual, (*path, rest))
        elif kind == "v" and json.loads(rest) not in (intent or ()) and json.loads(rest) in (stored or ()):
            yield (*path, rest)


def _abandoned_elements(owned: Mapping[str, Any], intent: Any, stored: Any, path: Path) -> Iterator[Path]:
    """The same in a list that is merged by keys."""
    intended, existing = _selected(owned, intent), _selected(owned, stored)
    for selector, elements in existing.items():
        below = (*path, selector[2:])
        if not elements:
            continue
        if intended[selector]:
            yield from _abandoned(owned[selector], intended[selector][0], elements[0], below)
        else:
            yield below


def _selected(owned: Mapping[str, Any], elements: Any) -> dict[str, list[Mapping[str, Any]]]:
    """By selector (`k:{"name":"a"}`) in managedFields, the elements of a list merged by keys that it means.

    A key that an element leaves to the server's default (a port's protocol) may have any value.
    """
    selectors = {selector: _keys_of(selector) for selector in owned if selector[:2] == "k:"}
    if not selectors:
        return {}
    found: dict[str, list[Mapping[str, Any]]] = {selector: [] for selector in selectors}
    names = [name for name, _ in next(iter(selectors.values()))]
    # By the names that an element has, and its values of these. To compare each with each took minutes.
    meant: dict[tuple[str, ...], dict[tuple[Any, ...], list[str]]] = {}
    for element in elements or ():
        there = tuple(name for name in names if name in element)
        if there not in meant:
            by_values = meant[there] = {}
            for selector, keys in selectors.items():
                wanted = dict(keys)
                by_values.setdefault(tuple(wanted.get(name) for name in there), []).append(selector)
        for selector in meant[there].get(tuple(element[name] for name in there), ()):
            found[selector].append(element)
    return found


@lru_cache(maxsize=4096)
def _keys_of(selector: str) -> tuple[tuple[str, Any], ...]:
    return tuple(json.loads(selector[2:]).items())


def _is_same_scalar(wanted: Any, actual: Any, path: Path) -> bool:
    if wanted == actual:
        return type(wanted) is type(actual) or not isinstance(wanted, bool)
    if not _QUANTITY_FIELDS.isdisjoint(path[-2:]):
        try:
            # The API server keeps no more than thousandths, rounded up.
            return _thousandths(wanted) == _thousandths(actual)
        except ValueError:
            return False
    return False


def _thousandths(value: Any) -> quantities.Quantity:
    return quantities.parse(value).rounded_up(quantities.MILLI)


def _is_nothing(value: Any) -> bool:
    """Report whether a value is null, or a structure that contains nothing else."""
    if is_mapping(value):
        return all(_is_nothing(each) for each in value.values())
    return value is None or (isinstance(value, list | tuple) and not value)
