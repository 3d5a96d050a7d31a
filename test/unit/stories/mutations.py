"""Random edits that the API server accepts and no controller expects.

They change stored revisions, the records in a status, and labels and annotations of every kind that the
product reads. Each edit changes one object and describes itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lws.kube.metadata import copied
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.leaderworkerset import placement, v1
from lws_api.leaderworkerset.v1 import KIND
from test.unit.stories.fake_cluster import NAME, FakeCluster

_DEEP: Any = "leaf"
for _ in range(100):
    _DEEP = {"a": [_DEEP]}

STORED_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 7, 1.5, 1e300, 2**31, 2**63 - 1, -(2**63)),
    *("", "two", "1", "25%", "²", "٣", "9" * 5000, "a\x00b", "1e9999", "0001-01-01T00:00:00+14:00"),
    *([], {}, [None], [[]], [{}], {"": None}, {"name": []}, {"a": {"b": {}}}, _DEEP),
)
"""Replacements for values of a custom resource, as the API server has decoded them."""

RAW_VALUES = (*STORED_VALUES, float("inf"), 2**63, -(10**400), "\ud800")
"""Replacements for values in the data of a ControllerRevision, which the API server stores as they came."""

TEXTS = (
    *("", " ", "0", "00", "1", "2", "3", "-1", "+1", "²", "٣", "two", "null", "true", "garbage"),
    *("9" * 10, "9" * 5000, "1.1.1.", "0-0", "\u2028", "a=b,c", "x" * 300, "default", "demo", "demo-0"),
)
"""Replacements for labels and annotations. The API server accepts only shorter labels, which no code relies
on.
"""

_LABELS, _ANNOTATIONS = ("metadata", "labels"), ("metadata", "annotations")
_PARTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    KIND: (("status",), ("status",), _LABELS, _ANNOTATIONS),
    "ControllerRevision": (("data",), ("data",), ("data",), ("revision",), _LABELS, _ANNOTATIONS),
    disaggregated.KIND: (("status",), ("status",), ("status",), _LABELS, _ANNOTATIONS),
    disaggregated.SCALER_KIND: (("status",), _LABELS, _ANNOTATIONS),
}
_KINDS = (KIND, KIND, KIND, "ControllerRevision", "ControllerRevision", "ControllerRevision", "Pod", "Pod")
"""Kinds that are drawn more often than the others."""
_KINDS_OF_PAIRS = (disaggregated.KIND, disaggregated.KIND, disaggregated.KIND, KIND)
"""Kinds that are drawn in addition if there are DisaggregatedSets."""
_NUMBERS = (0, -5, 1, 2, 99, 2**63 - 1, -(2**63))


def _keys_that_end(suffix: str) -> list[str]:
    """Return the keys of labels or annotations whose constants have names that end in `suffix`."""
    constants = {**vars(v1), **vars(placement)}
    return sorted({value for name, value in constants.items() if name.endswith(suffix)})


_READ = {
    _LABELS: [*_keys_that_end("_LABEL"), "controller-revision-hash", "scheduling.x-k8s.io/pod-group"],
    _ANNOTATIONS: [*_keys_that_end("_ANNOTATION"), "controller.kubernetes.io/pod-deletion-cost"],
}
"""Keys that some decision reads, on any kind."""
_READ_OF_PAIRS = {
    part: sorted(value for name, value in vars(disaggregated).items() if name.endswith(end))
    for part, end in ((_LABELS, "_LABEL"), (_ANNOTATIONS, "_ANNOTATION"))
}
"""The same for DisaggregatedSets."""


@dataclass(frozen=True)
class Edit:
    """One edit: the object, the path in it, and the new value."""

    kind: str
    name: str
    path: tuple[Any, ...]
    value: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {'.'.join(map(str, self.path))} = {self.value}"


def edit(cluster: FakeCluster, pick: random.Random) -> Edit:
    """Edit one object, but no field by which users state what they want."""
    kinds = sorted({kind for kind, _ in cluster.objects})
    kind = pick.choice([*_KINDS, *(_KINDS_OF_PAIRS if disaggregated.KIND in kinds else ()), *kinds])
    _, name = pick.choice(sorted(key for key in cluster.objects if key[0] == kind))
    return _edit_part(cluster, kind, name, pick.choice(_PARTS.get(kind, (_LABELS, _ANNOTATIONS))), pick)


def edit_wish(cluster: FakeCluster, pick: random.Random) -> Edit:
    """Edit the spec of a set, as the definition of another release may have accepted it."""
    return _edit_part(cluster, KIND, NAME, ("spec",), pick)


def _edit_part(
    cluster: FakeCluster, kind: str, name: str, part: tuple[str, ...], pick: random.Random
) -> Edit:
    stored = cluster.objects[kind, name]
    changed = copied(stored)
    holder = changed if len(part) == 1 else changed[part[0]]
    field = part[-1]
    path = part
    if part in _READ:
        path = (*part, _edit_texts(holder.setdefault(field, {}), _keys_for(cluster, kind, part), pick))
    elif part == ("revision",):
        holder[field] = pick.choice(_NUMBERS)
    else:
        values = RAW_VALUES if part == ("data",) else STORED_VALUES
        path = (*part, *_edit_json(holder, field, values, pick))
    fields = {} if part[0] == "metadata" else {part[0]: changed.get(part[0])}
    cluster.change(stored, changed["metadata"], **fields)
    return Edit(kind, name, path, _shown(changed, path))


def _keys_for(cluster: FakeCluster, kind: str, part: tuple[str, ...]) -> list[str]:
    """Return the keys that may be edited. Placement annotations of a set belong to its user."""
    has_pairs = any(True for _ in cluster.of_kind(disaggregated.KIND))
    read = [*_READ[part], *(_READ_OF_PAIRS[part] if has_pairs else ())]
    return [key for key in read if kind != KIND or key not in PLACEMENT_ANNOTATIONS]


def _edit_texts(texts: dict[str, str], read: Sequence[str], pick: random.Random) -> str:
    """Replace, remove or add one text. Return its key."""
    present = sorted(texts)
    key = pick.choice(present if present and pick.random() < 0.6 else read)
    if pick.random() < 0.3:
        texts.pop(key, None)
    else:
        texts[key] = pick.choice(TEXTS)
    return key


def _edit_json(holder: Any, key: Any, values: Sequence[Any], pick: random.Random) -> tuple[Any, ...]:
    """Edit a value at or below holder[key]. Return its path below holder[key]."""
    holder.setdefault(key, {})
    path: tuple[Any, ...] = ()
    while (below := list(_keys(holder[key]))) and pick.random() < 0.85:
        path, holder, key = (*path, key), holder[key], pick.choice(below)
    chance = pick.random()
    value = holder[key]
    if chance < 0.6:
        holder[key] = pick.choice(values)
    elif chance < 0.7:
        del holder[key]
    elif chance < 0.8:
        holder[key] = pick.choice([[value], {"a": value}, [value, value], str(value)])
    elif isinstance(value, dict):
        value[pick.choice(["name", "new", "$patch", "spec", "9" * 5000])] = pick.choice(values)
    elif isinstance(value, list):
        value.append(pick.choice(values))
    else:
        holder[key] = {str(value): value}
    return (*path[1:], key) if path else ()


def _keys(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from sorted(value)
    elif isinstance(value, list):
        yield from range(len(value))


def _shown(obj: Any, path: tuple[Any, ...]) -> str:
    for key in path:
        try:
            obj = obj[key]
        except (KeyError, IndexError, TypeError):
            return "(gone)"
    text = ascii(obj)
    return text if len(text) < 200 else f"{text[:200]}…"
