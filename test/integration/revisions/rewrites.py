"""Other spellings of a pod template: some mean the same, some do not, and which is which is not said here.

In: a template. Out: a hypothesis strategy of templates that differ from it in a few places.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lws.kube.typed import POD_TYPES

Object = dict[str, Any]

_ZEROS: dict[str, tuple[Any, ...]] = {
    "s": ("", "Always", "x"),
    "b": (False, True),
    "i": (0, 1),
    "q": ("0", "1"),
    "x": (0,),
    "t": (),
    "j": (),
}
_NOT_WRITTEN = frozenset(
    {
        # Not in templates, or not in this server without a feature gate.
        "managedFields",
        "ephemeralContainers",
        "schedulingGroup",
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
    }
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
_IN_QUANTITIES = ("limits", "requests", "overhead")


@st.composite
def rewritten(draw: DrawFn, template: Object) -> Object:
    """The template, written differently in up to four places."""
    made = copy.deepcopy(template)
    for _ in range(draw(st.integers(0, 4))):
        structs = list(_structs(made, "PodTemplateSpec"))
        struct, type_name = structs[draw(st.integers(0, len(structs) - 1))]
        change = draw(st.sampled_from((_add_null, _add_empty, _add_value, _respell, _reorder, _drop)))
        change(draw, struct, type_name)
    return made


@st.composite
def completed(draw: DrawFn, template: Object, stored: Object) -> Object:
    """The template as a typed client that knows the defaults writes it, but for some of them."""
    made = copy.deepcopy(stored)
    for path in draw(st.lists(st.sampled_from(sorted(_added(template, stored, ())) or [()]), max_size=3)):
        _remove(made, path)
    return made


def _add_null(draw: DrawFn, struct: Object, type_name: str) -> None:
    absent = [key for key in POD_TYPES[type_name] if key not in struct and key not in _NOT_WRITTEN]
    if absent:
        struct[draw(st.sampled_from(absent))] = None


def _add_empty(draw: DrawFn, struct: Object, type_name: str) -> None:
    fields = [(key, code) for key, code in _absent(struct, type_name) if code not in _ZEROS]
    if fields:
        key, code = draw(st.sampled_from(fields))
        struct[key] = [] if code.startswith("[") else {}


def _add_value(draw: DrawFn, struct: Object, type_name: str) -> None:
    fields = [(key, value) for key, code in _absent(struct, type_name) for value in _ZEROS.get(code, ())]
    if fields:
        key, value = draw(st.sampled_from(fields))
        struct[key] = value


def _respell(draw: DrawFn, struct: Object, type_name: str) -> None:
    lists = [struct[key] for key in _IN_QUANTITIES if isinstance(struct.get(key), dict)]
    places = [(each, name) for each in lists for name in each]
    if isinstance(struct.get("sizeLimit"), str):
        places.append((struct, "sizeLimit"))
    if places:
        place, name = draw(st.sampled_from(places))
        family = next((each for each in _SPELLINGS if place[name] in each), (place[name],))
        place[name] = draw(st.sampled_from(family))


def _reorder(draw: DrawFn, struct: Object, type_name: str) -> None:
    items = draw(st.permutations(list(struct.items())))
    struct.clear()
    struct.update(items)


def _drop(draw: DrawFn, struct: Object, type_name: str) -> None:
    optional = [
        key for key in struct if key not in ("name", "containers", "spec", "mountPath", "containerPort")
    ]
    if optional:
        del struct[draw(st.sampled_from(optional))]


def _absent(struct: Object, type_name: str) -> Iterator[tuple[str, str]]:
    for key, code in POD_TYPES[type_name].items():
        if key not in struct and key not in _NOT_WRITTEN:
            yield key, code.lstrip("*=?")


def _structs(value: Any, code: str) -> Iterator[tuple[Object, str]]:
    """Every struct below a value, with the name of its type."""
    code = code.lstrip("*=?")
    if code.startswith("[") and isinstance(value, list):
        for item in value:
            yield from _structs(item, code[1:-1])
    elif code in POD_TYPES and isinstance(value, dict):
        yield value, code
        for key, item in value.items():
            yield from _structs(item, POD_TYPES[code].get(key, "j"))


def _added(before: Any, after: Any, path: tuple[Any, ...]) -> Iterator[tuple[str, ...]]:
    """Paths that are in `after` alone, as JSON, so that they can be sorted."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in after:
            if key not in before:
                yield tuple(map(json.dumps, (*path, key)))
            else:
                yield from _added(before[key], after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from _added(one, two, (*path, index))


def _remove(value: Any, path: tuple[str, ...]) -> None:
    *way, last = map(json.loads, path) if path else [None]
    for step in way:
        if not (isinstance(value, list) or step in value):
            return
        value = value[step]
    if isinstance(value, dict):
        value.pop(last, None)
