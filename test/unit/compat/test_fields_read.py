"""Tests that whole and trimmed recorded states yield the same plans, and that tables list all read fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from lws.leaderworkerset.routing import Routing
from lws.leaderworkerset.tables import TABLES, nothing, table_of
from lws.runtime.store import Store
from lws.runtime.stored_fields import Rule, StoredFields, Wakes
from test.unit.builders import is_same, trim
from test.unit.compat import observed
from test.unit.compat.states import load, names
from test.unit.whole import doubled, dressed


@pytest.mark.parametrize("name", names())
async def test_trimmed_fields_change_no_plan(name: str) -> None:
    with doubled(observed, observed) as reads:
        state = observed.Observed(load(name).objects)
        await state.plan_set()
        groups = await state.plan_groups()
    assert reads.compared == {"set": 1, "group": len(groups)}
    assert reads.without_row() == []


RESTARTED = [{"name": "other", "restartCount": 1}]
NEW = {
    "deletionGracePeriodSeconds": 30,
    "containerStatuses": RESTARTED,
    "initContainerStatuses": RESTARTED,
}
"""Values of fields that may be absent, by name."""


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path


def _absent(obj: dict[str, Any], table: StoredFields) -> Iterator[tuple[Any, ...]]:
    for row in table.fields:
        if row.excerpt is not nothing and row.name not in (obj[row.section] if row.section else obj):
            yield tuple(row.path.split("."))


def _changed(obj: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    result = copy.deepcopy(obj)
    part = result
    for key in path[:-1]:
        part = part[key]
    is_number = isinstance(part, list) or isinstance(part.get(path[-1]), int)
    part[path[-1]] = NEW.get(path[-1], 99 if is_number else "other")
    return result


def _declared(table: StoredFields, path: tuple[Any, ...]) -> Wakes | Rule:
    """Return what the table declares to be enqueued on a change of this field, by its most specific row."""
    rows = {tuple(field.path.split(".")): field.wakes for field in table.fields}
    declared = [rows[path[:end]] for end in (1, 2) if path[:end] in rows]
    if declared:
        return declared[-1]
    assert table.others is not None
    return table.others


@pytest.mark.parametrize("name", ["at-rest-per-replica", "at-rest-with-claims", "mid-rollout-surge"])
def test_a_change_of_a_kept_field_enqueues_the_declared_passes(name: str) -> None:
    routes = Routing(Store(lambda before, after: None, TABLES)).routes
    for obj in map(dressed, load(name).objects):
        table, trimmed = table_of(obj), trim(obj)
        assert table is not None
        route = routes[trimmed["kind"]]
        concerned = {key for key, _ in route(None, trimmed)}
        for path in {*_leaves(trimmed), *_absent(trimmed, table)} - {("apiVersion",), ("kind",)}:
            after, declared = _changed(trimmed, path), _declared(table, path)
            woken = set() if is_same(trimmed, after) else {key for key, _ in route(trimmed, after)}
            if declared is Wakes.ALL:
                assert concerned <= woken, f"{trimmed['kind']}: {path}"
            elif declared is Wakes.NONE:
                assert woken == set(), f"{trimmed['kind']}: {path}"
