"""Generate variants of pod and PVC templates, equivalent or not.

This module does not decide which variants are equivalent.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lws.kube.typed import POD_TYPES

Object = dict[str, Any]

_ZEROS: dict[str, tuple[Any, ...]] = {
    "s": ("", "Always", "x"),
    "b": (False, True),
    "i": (0, 1),
    "l": (0, 1),
    "q": ("0", "1"),
    "x": (0,),
    "t": (),
    "j": (),
}
_NOT_WRITTEN = frozenset(
    {
        # Fields that templates lack, or that this server rejects without a feature gate.
        "managedFields",
        "ephemeralContainers",
        "schedulingGroup",
        "stopSignal",
        "clusterTrustBundle",
        "podCertificate",
        "name",
        "namespace",
        "generateName",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "finalizers",
        "ownerReferences",
        "deletionGracePeriodSeconds",
        "bindMountOptions",
        "defaultUser",
        "evictionResponders",
        "healthStatus",
        "user",
    }
)
_GATED = frozenset(
    # The same, for field names that other types have too.
    {("EmptyDirVolumeSource", "mode"), ("GRPCAction", "mode"), ("HTTPGetAction", "protocol")}
)
_SPELLINGS = (
    ("1", 1, "1000m", "1.0", "1000000u", "0.001k", "2", "1001m"),
    ("1Gi", "1024Mi", "1048576Ki", "1073741824", 1073741824, "1G"),
    ("1.5", "1500m", "1500000u", "1501m"),
    ("100m", "0.1", "1e-1", "0.2"),
    ("512Mi", "0.5Gi", "536870912"),
    ("1e9", "1G", "1000M", 1000000000),
    ("0.0005", "500u", "1m", "0"),
    (8, "8", "8.0", "9"),
)
_NEEDED = ("name", "containers", "spec", "mountPath", "containerPort")
_GONE = object()


@st.composite
def rewritten(draw: DrawFn, template: Object, type_name: str = "PodTemplateSpec") -> Object:
    """Return the template with another notation in one to four places."""
    result = copy.deepcopy(template)
    for _ in range(draw(st.integers(1, 4))):
        possible = {kind: changes for kind in _KINDS if (changes := list(_changes(result, type_name, kind)))}
        struct, key, value = draw(st.sampled_from(possible[draw(st.sampled_from(sorted(possible)))]))
        if key is None:
            items = list(struct.items())
            struct.clear()
            struct.update(reversed(items))
        elif value is _GONE:
            del struct[key]
        else:
            struct[key] = value
    return result


@st.composite
def completed(draw: DrawFn, template: Object, stored: Object) -> Object:
    """Return the template as a typed client writes it, with most of the defaults."""
    result = copy.deepcopy(stored)
    for path in draw(st.lists(st.sampled_from(sorted(_added(template, stored, ())) or [()]), max_size=3)):
        _remove(result, path)
    return result


def _changes(template: Object, of_type: str, kind: str) -> Iterator[tuple[Object, str | None, Any]]:
    """Yield every possible change of a kind: the struct, the key and the new value."""
    for struct, type_name in _structs(template, of_type):
        yield from ((struct, key, value) for key, value in _KINDS[kind](struct, type_name))
        if kind == "respell":
            for quantities in _quantity_maps(struct, type_name):
                yield from (
                    (quantities, key, notation) for key in quantities for notation in _others(quantities[key])
                )


def _nulls(struct: Object, type_name: str) -> Iterator[tuple[str, Any]]:
    # Absent fields as well: null means nothing anywhere.
    yield from ((key, None) for key in POD_TYPES[type_name] if key not in struct)


def _empties(struct: Object, type_name: str) -> Iterator[tuple[str, Any]]:
    for key, code in _absent(struct, type_name):
        if code not in _ZEROS:
            yield key, [] if code.startswith("[") else {}


def _values(struct: Object, type_name: str) -> Iterator[tuple[str, Any]]:
    for key, code in _absent(struct, type_name):
        yield from ((key, value) for value in _ZEROS.get(code, ()))


def _respelled(struct: Object, type_name: str) -> Iterator[tuple[str, Any]]:
    for key, code in POD_TYPES[type_name].items():
        if key in struct and code.lstrip("*=?") == "q":
            yield from ((key, notation) for notation in _others(struct[key]))


def _quantity_maps(struct: Object, type_name: str) -> Iterator[Object]:
    for key, code in POD_TYPES[type_name].items():
        if code == "{q}" and isinstance(struct.get(key), dict):
            yield struct[key]


def _others(quantity: Any) -> Iterator[Any]:
    """Yield other notations of a quantity, and other quantities."""
    for family in _SPELLINGS:
        # For a quantity, 1 and "1" are the same, and both are notations.
        if quantity in family and not isinstance(quantity, bool):
            yield from (
                notation for notation in family if (type(notation), notation) != (type(quantity), quantity)
            )


def _reordered(struct: Object, type_name: str) -> Iterator[tuple[str | None, Any]]:
    if len(struct) > 1:
        yield None, None


def _dropped(struct: Object, type_name: str) -> Iterator[tuple[str, Any]]:
    yield from ((key, _GONE) for key in struct if key not in _NEEDED)


_KINDS: dict[str, Callable[[Object, str], Iterator[tuple[str | None, Any]]]] = {
    "null": _nulls,
    "empty": _empties,
    "value": _values,
    "respell": _respelled,
    "reorder": _reordered,
    "drop": _dropped,
}


def _absent(struct: Object, type_name: str) -> Iterator[tuple[str, str]]:
    for key, code in POD_TYPES[type_name].items():
        if key not in struct and key not in _NOT_WRITTEN and (type_name, key) not in _GATED:
            yield key, code.lstrip("*=?")


def _structs(value: Any, code: str) -> Iterator[tuple[Object, str]]:
    """Yield every struct below a value, with the name of its type."""
    code = code.lstrip("*=?")
    if code.startswith("[") and isinstance(value, list):
        for item in value:
            yield from _structs(item, code[1:-1])
    elif code in POD_TYPES and isinstance(value, dict):
        yield value, code
        for key, item in value.items():
            yield from _structs(item, POD_TYPES[code].get(key, "j"))


def _added(before: Any, after: Any, path: tuple[Any, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths that only `after` has, as JSON, so that they can be sorted."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in after:
            if key not in before:
                yield tuple(map(json.dumps, (*path, key)))
            else:
                yield from _added(before[key], after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _added(old, new, (*path, index))


def _remove(value: Any, path: tuple[str, ...]) -> None:
    *parents, last = map(json.loads, path) if path else [None]
    for step in parents:
        if not (isinstance(value, list) or step in value):
            return
        value = value[step]
    if isinstance(value, dict):
        value.pop(last, None)
