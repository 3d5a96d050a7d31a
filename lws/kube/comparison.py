"""Compare Kubernetes objects or parts of them, and describe their differences in words.

A comparison takes microseconds and a description milliseconds, so describe only values that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from types import MappingProxyType
from typing import Any

from lws.kube.metadata import is_mapping

NOISE = frozenset(
    {"annotations", "labels", "limits", "metadata", "nodeSelector", "requests", "resources", "status"}
)
"""Fields in which an empty mapping equals an absent one. In other fields it does not (`emptyDir: {}`)."""

_MERGE_KEYS = {
    "conditions": "type",
    "hostAliases": "ip",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
"""Field of a list → the key that identifies its elements in place of a name (list-map keys of Kubernetes)."""

_WORDS: Mapping[str, str] = {
    "annotations": "annotation",
    "containers": "container",
    "ephemeralContainers": "ephemeral container",
    "initContainers": "init container",
    "labels": "label",
    "limits": "limit",
    "metadata": "",
    "ports": "port",
    "requests": "request",
    "resources": "",
    "spec": "",
    "template": "",
    "tolerations": "toleration",
    "volumeMounts": "volume mount",
    "volumes": "volume",
}

_MAPS = frozenset({"annotations", "labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Fields whose keys are names chosen by users and not fields of the API."""

_NAME = "\0"
"""Prefix of keys that are names: a container named `spec` is not the field. The prefix occurs in no name."""
_ORDER = _NAME
"""Key under which a list that was turned into a mapping keeps the order of its elements."""

_ABSENT = object()
_LONGEST_VALUE = 60
_MOST_ELEMENTS = 50
"""Maximum length of lists that are compared element by element.
deepdiff took 0.3 s for 1,000 arguments of which every other one was new, and 35 s for 10,000 equal arguments
followed by a new one.
"""

_Difference = tuple[list[Any], Any, Any]


@dataclass(frozen=True, slots=True)
class _Elements:
    count: int


def canonical(value: Any) -> Any:
    """Return the value without nulls and without empty mappings in `NOISE` fields. Lists keep their order."""
    if is_mapping(value):
        fields = {key: canonical(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in fields.items() if item != {} or key not in NOISE}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


def explain(old: Any, new: Any, words: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return one line for each difference, such as `container main image: a:1 → a:2`, with elements by name.

    words: how to call fields in the lines, in addition to `_WORDS`. An empty word omits the field.
    """
    words = {**_WORDS, **words}
    differences = _differences([], _by_name(canonical(old)), _by_name(canonical(new)))
    return sorted(line for difference in differences for line in _lines(*difference, words))


def _differences(path: list[Any], old: Any, new: Any) -> Iterator[_Difference]:
    """Yield path, old value and new value of each difference; `_ABSENT` stands for a missing value."""
    if _is_identical(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            yield from _differences([*path, key], old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _differences_of_lists(path, old, new)
    else:
        yield path, old, new


def _differences_of_lists(path: list[Any], old: list[Any], new: list[Any]) -> Iterator[_Difference]:
    """Yield the differences between two lists, leaving out their common start and end."""
    pairs = zip(old, new, strict=False)
    first = next(
        (index for index, pair in enumerate(pairs) if not _is_identical(*pair)), min(len(old), len(new))
    )
    ends = zip(reversed(old[first:]), reversed(new[first:]), strict=False)
    last = sum(1 for _ in takewhile(lambda pair: _is_identical(*pair), ends))
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(before), len(after)) > _MOST_ELEMENTS:
        yield path, _Elements(len(old)), _Elements(len(new))
        return
    if any(isinstance(element, dict | list) for element in (*before, *after)):
        # Compared by position, as deepdiff does, which has no limit for nested lists.
        for index, (one, other) in enumerate(zip_longest(before, after, fillvalue=_ABSENT), start=first):
            yield from _differences([*path, index], one, other)
        return
    # Imported late, because the import takes 0.1 s and is rarely needed.
    from deepdiff import DeepDiff

    tree = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0, custom_operators=[_WholeTexts()])
    for level in (level for levels in tree.values() for level in levels):
        index, *tail = level.path(output_format="list")
        yield [*path, first + index, *tail], level.t1, level.t2


class _WholeTexts:
    """Keeps deepdiff from comparing texts line by line: 9 s and more for a script of one megabyte."""

    def match(self, level: Any) -> bool:
        return isinstance(level.t1, str) and isinstance(level.t2, str)

    def give_up_diffing(self, level: Any, diff_instance: Any) -> bool:
        if level.t1 != level.t2:
            diff_instance.custom_report_result("texts_changed", level)
        return True


def _is_identical(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_is_identical(item, other[key]) for key, item in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(_is_identical(first, second) for first, second in zip(one, other, strict=True))
        )
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _by_name(value: Any, field: str = "") -> Any:
    """Turn lists of named elements into mappings, so that elements of the same name are compared."""
    if isinstance(value, dict):
        prefix = _NAME if field in _MAPS else ""
        return {prefix + key: _by_name(item, key) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    names = _names(value, _MERGE_KEYS.get(field, "name"))
    if names is None:
        return [_by_name(item) for item in value]
    elements = {_NAME + name: _element(item, field) for name, item in zip(names, value, strict=True)}
    return {**elements, _ORDER: _ORDER.join(names)}


def _names(elements: list[Any], key: str) -> list[str] | None:
    """Return the names of all elements; None if a name is missing or repeated."""
    if not elements or not all(isinstance(item, dict) and key in item for item in elements):
        return None
    names = [str(item[key]) for item in elements]
    return names if len(set(names)) == len(names) else None


def _element(item: Mapping[str, Any], field: str) -> Any:
    if field == "env" and item.keys() <= {"name", "value"}:
        return item.get("value", "")
    key = _MERGE_KEYS.get(field, "name")
    return {name: _by_name(part, name) for name, part in item.items() if name != key}


def _lines(path: list[Any], old: Any, new: Any, words: Mapping[str, str]) -> Iterator[str]:
    if path and path[-1] == _ORDER:
        if sorted(_parts(old)) == sorted(_parts(new)):
            yield f"{_phrase(path[:-1], words)} order: {', '.join(_parts(old))} → {', '.join(_parts(new))}"
        return
    if isinstance(old, _Elements) and isinstance(new, _Elements):
        counts = f"{old.count}" if old.count == new.count else f"{old.count} → {new.count}"
        yield f"{_phrase(path, words)}: many elements changed ({counts})"
    elif not _is_missing(old) and not _is_missing(new):
        yield f"{_phrase(path, words)}: {_shown(old)} → {_shown(new)}"
    elif _is_missing(old):
        for leaf_path, value in _leaves(path, new, words):
            yield f"{leaf_path} added" + (f": {_shown(value)}" if _is_scalar(value) else "")
    else:
        for leaf_path, value in _leaves(path, old, words):
            yield f"{leaf_path} removed" + (f", was {_shown(value)}" if _is_scalar(value) else "")


def _leaves(path: list[Any], value: Any, words: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Describe a value that was added or removed: its named parts one by one, or the value itself."""
    is_silent = not path or words.get(path[-1]) == ""
    if isinstance(value, dict) and value and (is_silent or any(key.startswith(_NAME) for key in value)):
        for key, item in value.items():
            if key != _ORDER:
                yield from _leaves([*path, key], item, words)
    else:
        yield _phrase(path, words), value


def _parts(order: Any) -> list[str]:
    return order.split(_ORDER) if isinstance(order, str) and order else []


def _is_missing(value: Any) -> bool:
    # deepdiff's marker for a missing value is not of a JSON type.
    return not isinstance(value, str | int | float | dict | list)


def _is_scalar(value: Any) -> bool:
    """Return whether a line should show the value. A structure would hide whether it was added or removed."""
    return not isinstance(value, dict | list)


def _phrase(path: Iterable[Any], words: Mapping[str, str]) -> str:
    phrase = ""
    for part in path:
        if isinstance(part, int):
            phrase += f"[{part}]"
        elif part.startswith(_NAME):
            phrase += f" {part.removeprefix(_NAME)}"
        elif word := words.get(part, part):
            phrase += f" {word}"
    return phrase.strip() or "value"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    text = text.replace(_NAME, " ")
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
