"""Answers: which LeaderWorkerSets does a DisaggregatedSet come to, and is each of them at rest?

In: a DisaggregatedSet as written, a view. Out: names, yes or no, checks. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from tools.demo.check import Check, equal, same_members
from tools.demo.facts import Object
from tools.demo.record import Kind, View
from tools.demo.settled import is_at_rest


def children_of(view: View, name: str) -> list[str]:
    """Its LeaderWorkerSets."""
    return sorted(map(_name, _sets(view, name)))


def is_whole(view: View, written: Mapping[str, Any], least: Mapping[str, int]) -> bool:
    """Every role has its LeaderWorkerSet in every slice, with all groups. least: by the name of a scaler."""
    name = written["metadata"]["name"]
    found = {_place(each): _name(each) for each in _sets(view, name)}
    return found.keys() == _places(written) and all(
        is_at_rest(view, child, least.get(f"{name}-{role}", 0)) for (_, role), child in found.items()
    )


def verify_roles(view: View, written: Mapping[str, Any]) -> list[Check]:
    """Names, one revision for all, and a Service for each."""
    name = written["metadata"]["name"]
    keys = Counter(_labels(each)[REVISION_LABEL] for each in _sets(view, name))
    key = next(iter(keys), "")
    expected = [f"{name}-{index}-{key}-{role}" for index, role in _places(written)]
    services = [_name(each) for each in view.objects[Kind.SERVICE] if _is_of(each, name)]
    return [
        equal(f"all roles of {name} are on one revision", 1, len(keys)),
        same_members("a LeaderWorkerSet for each role in each slice", expected, children_of(view, name)),
        same_members("a Service for each of them", [f"{each}-prv" for each in expected], services),
    ]


def _sets(view: View, name: str) -> list[Object]:
    return [each for each in view.objects[Kind.SET] if _is_of(each, name)]


def _is_of(found: Object, name: str) -> bool:
    return _labels(found).get(NAME_LABEL) == name


def _places(written: Mapping[str, Any]) -> set[tuple[str, str]]:
    spec = written["spec"]
    return {(str(index), role["name"]) for index in range(spec.get("slices", 1)) for role in spec["roles"]}


def _place(child: Object) -> tuple[str, str]:
    labels = _labels(child)
    return labels.get(SLICE_LABEL, "0"), labels[ROLE_LABEL]


def _labels(found: Object) -> Mapping[str, str]:
    return found["metadata"].get("labels") or {}


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])
