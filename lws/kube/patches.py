"""Build and apply merge patches (RFC 7386), build JSON patches (RFC 6902), and predict server-side apply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lws.kube.metadata import is_mapping
from lws.kube.quantities import MILLI, parse
from lws.kube.typed import POD_TYPES, Normaliser

Operation = dict[str, Any]


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch from `before` to `after`, which must not contain None; None if they are equal.

    Objects are patched field by field, all other values are replaced. In the patch, null removes a field.
    """
    # Most documents are equal, and comparing them as a whole is much faster.
    if before == after:
        return None
    patch: dict[str, Any] = {field: None for field in before if field not in after}
    for field, value in after.items():
        old = before.get(field)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(old, value)
            if inner is not None:
                patch[field] = inner
        elif field not in before or old != value:
            patch[field] = value
    return patch or None


def with_merged(document: Any, patch: Any) -> Any:
    """Return the document with the patch merged into it (RFC 7386). Neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    fields = document if isinstance(document, Mapping) else {}
    merged = {
        field: value for field, value in fields.items() if field not in patch or patch[field] is not None
    }
    present = {field: value for field, value in patch.items() if value is not None}
    return {**merged, **{field: with_merged(fields.get(field), value) for field, value in present.items()}}


def is_merged_into(before: Mapping[str, Any], patch: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether `after` can be the result of merging the patch into `before`.

    Fields outside the patch must be equal, but those that are None in `before` may have any value in `after`.
    Fields of the patch are not compared, because a server may prune or normalise them.
    """
    for field in before.keys() | after.keys():
        old, stored = before.get(field), after.get(field)
        if field not in patch:
            is_kept = old == stored or (field in before and old is None)
        elif isinstance(patch[field], Mapping) and isinstance(old, Mapping):
            is_kept = is_merged_into(old, patch[field], stored if isinstance(stored, Mapping) else {})
        else:
            is_kept = True
        if not is_kept:
            return False
    return True


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[Operation]:
    """Yield the JSON patch from `before` to `after`, both at `path`; fast if they differ in few places."""
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
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{escaped(key)}"}
        elif after[key] is not value:
            yield from json_patch(value, after[key], f"{path}/{escaped(key)}")
    for key, value in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{path}/{escaped(key)}", "value": value}


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Operation]:
    """Keep the common start and end of both lists; add, remove or replace the elements in between."""
    if len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from json_patch(old, new, f"{path}/{index}")
        return
    shortest = min(len(before), len(after))
    start = next((index for index in range(shortest) if before[index] != after[index]), shortest)
    end = next((index for index in range(shortest - start) if before[-1 - index] != after[-1 - index]), None)
    suffix_length = shortest - start if end is None else end
    if start + suffix_length == len(before):
        for index in range(start, len(after) - suffix_length):
            yield {"op": "add", "path": f"{path}/{index}", "value": after[index]}
    elif start + suffix_length == len(after):
        for _ in range(len(before) - len(after)):
            yield {"op": "remove", "path": f"{path}/{start}"}
    else:
        yield {"op": "replace", "path": path, "value": after}


def escaped(key: str) -> str:
    """Escape a key for a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


Path = tuple[str, ...]

# Fields of a pod template whose strings are quantities, which the API server normalises.
_QUANTITY_FIELDS = frozenset({"limits", "requests", "overhead", "capacity", "sizeLimit", "divisor"})

_TYPED = Normaliser(POD_TYPES)


def changed_paths(
    intent: Mapping[str, Any],
    stored: Mapping[str, Any],
    manager: str,
    is_tolerated: Callable[[Path], bool] = lambda path: False,
) -> list[Path]:
    """Return the paths at which an apply of `intent` by `manager` would change `stored`.

    Even an apply without changes costs a request, and a reconcile by the StatefulSet controller. A path
    differs if its intended value is not the stored one, or if the apply would remove it: managedFields list
    it for an apply by the manager, and the intent lacks it. A path that the manager owns and the object lacks
    was dropped by the server, for example by a feature gate: applying it again would not restore it.
    is_tolerated: reports whether a path may stay although it is no longer intended.
    """
    intent, owned = _as_stored(intent), _owned_fields(stored, manager)
    matches = [*_unlike(intent, stored, owned, ())]
    return matches + [path for path in _abandoned(owned, intent, stored, ()) if not is_tolerated(path)]


def was_dropped_below(intent: Mapping[str, Any], stored: Mapping[str, Any], manager: str, path: Path) -> bool:
    """Return whether the server dropped an intended field below this path, because a feature gate is off."""
    desired, actual, owned = _as_stored(intent), stored, _owned_fields(stored, manager)
    for part in path:
        desired, actual, owned = desired.get(part) or {}, actual.get(part) or {}, owned.get(f"f:{part}") or {}
    # The values differ, but only in owned fields that are missing.
    return next(_unlike(desired, actual, {}, path), None) is not None and (
        next(_unlike(desired, actual, owned, path), None) is None
    )


def is_owned(stored: Mapping[str, Any], manager: str, path: Path) -> bool:
    """Return whether an apply by the manager without this path, which contains no list, would remove it."""
    owned: Mapping[str, Any] | None = _owned_fields(stored, manager)
    for part in path:
        owned = owned.get(f"f:{part}") if owned is not None else None
    return owned is not None


def merge_patch_of(intent: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any] | None:
    """Return the merge patch for these paths of the intent; None if one of them is within a list."""
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
    """Return whether the stored object has all intended values, of any owner, and no other list elements."""
    return next(_unlike(intent, stored, {}, ()), None) is None


def digest(intent: Mapping[str, Any]) -> str:
    """Return a short fingerprint of an intent. Equal intents have equal fingerprints."""
    return hashlib.sha256(json.dumps(intent, sort_keys=True).encode()).hexdigest()[:16]


def _as_stored(intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the zero values that the API server drops from a pod template; others (`runAsUser: 0`) stay."""
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


def _unlike(desired: Any, actual: Any, owned: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if is_mapping(desired) and is_mapping(actual):
        for key, value in desired.items():
            if key not in actual:
                if owned.get(f"f:{key}") is None and not _is_nothing(value):
                    yield (*path, key)
            # Most of the compared values are equal strings.
            elif type(value) is not str or value != actual[key]:
                yield from _unlike(value, actual[key], owned.get(f"f:{key}") or {}, (*path, key))
    elif isinstance(desired, Sequence) and isinstance(actual, Sequence) and not isinstance(desired, str):
        yield from _unlike_lists(desired, actual, owned, path)
    elif desired is not None and not _is_same_scalar(desired, actual, path):
        yield path


def _unlike_lists(
    desired: Sequence[Any], actual: Sequence[Any], owned: Mapping[str, Any], path: Path
) -> Iterator[Path]:
    if path[-1:] == ("ownerReferences",):
        # Other clients may add references.
        by_uid = {reference["uid"]: reference for reference in actual}
        for reference in desired:
            yield from _unlike(reference, by_uid.get(reference["uid"], {}), {}, path)
        return
    selected = _selected(owned, actual)
    ours = {id(element): owned[selector] for selector, matches in selected.items() for element in matches}
    if selected:
        # An apply also leaves elements alone that it does not own in a list merged by keys.
        actual = [element for element in actual if id(element) in ours]
    if len(desired) != len(actual):
        yield path
        return
    for position, (desired_element, actual_element) in enumerate(zip(desired, actual, strict=True)):
        yield from _unlike(
            desired_element, actual_element, ours.get(id(actual_element), {}), (*path, str(position))
        )


def _abandoned(owned: Mapping[str, Any], intent: Any, stored: Any, path: Path) -> Iterator[Path]:
    for selector, below in owned.items():
        kind, _, text = selector.partition(":")
        if kind == "k":
            # Entries of list elements are not fields of an object.
            yield from _abandoned_elements(owned, intent, stored, path)
            return
        if kind == "f":
            actual = stored.get(text) if is_mapping(stored) else None
            if not is_mapping(intent) or text not in intent:
                if not _is_nothing(actual):
                    yield (*path, text)
            elif below:
                yield from _abandoned(below, intent[text], actual, (*path, text))
        elif kind == "v" and json.loads(text) not in (intent or ()) and json.loads(text) in (stored or ()):
            yield (*path, text)


def _abandoned_elements(owned: Mapping[str, Any], intent: Any, stored: Any, path: Path) -> Iterator[Path]:
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
    """Group the elements of a list merged by keys by their selector in managedFields (`k:{"name":"a"}`).

    If an element leaves a key to the server's default (the protocol of a port), any value of the key matches.
    """
    selectors = {selector: _keys_of(selector) for selector in owned if selector[:2] == "k:"}
    if not selectors:
        return {}
    matches: dict[str, list[Mapping[str, Any]]] = {selector: [] for selector in selectors}
    names = [name for name, _ in next(iter(selectors.values()))]
    # Selectors are indexed by the present keys and their values, because comparing all pairs took minutes.
    by_keys: dict[tuple[str, ...], dict[tuple[Any, ...], list[str]]] = {}
    for element in elements or ():
        present = tuple(name for name in names if name in element)
        if present not in by_keys:
            by_values = by_keys[present] = {}
            for selector, keys in selectors.items():
                desired = dict(keys)
                by_values.setdefault(tuple(desired.get(name) for name in present), []).append(selector)
        for selector in by_keys[present].get(tuple(element[name] for name in present), ()):
            matches[selector].append(element)
    return matches


def _keys_of(selector: str) -> tuple[tuple[str, Any], ...]:
    # The cache keeps whole selectors, and a user may submit any text as a name in a list.
    return _cached_keys(selector) if len(selector) <= _LONGEST_CACHED else _parsed_keys(selector)


def _parsed_keys(selector: str) -> tuple[tuple[str, Any], ...]:
    return tuple(json.loads(selector[2:]).items())


_cached_keys = lru_cache(maxsize=4096)(_parsed_keys)
_LONGEST_CACHED = 1024


def _is_same_scalar(desired: Any, actual: Any, path: Path) -> bool:
    if desired == actual:
        return type(desired) is type(actual) or not isinstance(desired, bool)
    if not _QUANTITY_FIELDS.isdisjoint(path[-2:]):
        try:
            # The API server rounds quantities up to thousandths.
            return parse(desired).rounded_up(MILLI) == parse(actual).rounded_up(MILLI)
        except ValueError:
            return False
    return False


def _is_nothing(value: Any) -> bool:
    """Return whether a value is null, an empty list, or an object that contains only such values."""
    if is_mapping(value):
        return all(_is_nothing(item) for item in value.values())
    return value is None or (isinstance(value, list | tuple) and not value)
