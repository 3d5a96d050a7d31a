"""Tests of lws.disaggregatedset.observe.recent_writes: results of our writes are known and no news."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Reference
from lws.runtime.store import Store
from test.unit.disaggregated import make_child, make_disaggregated

CHILD = make_child(make_disaggregated(), Identity(0, "1" * 8, "prefill"))


@pytest.fixture
def store() -> Store:
    result = Store(lambda before, after: None, TABLES)
    result.put(CHILD)
    return result


def find(store: Store) -> Any:
    return store.get(CHILD["kind"], "default", CHILD["metadata"]["name"])


def test_a_deleted_object_is_absent_before_its_watch_event(store: Store) -> None:
    DisaggregatedMemory(store).drop(Reference.to(CHILD))
    assert find(store) is None
    # An older event that was on its way does not restore the object.
    store.put(CHILD)
    assert find(store) is None


def test_a_new_object_of_the_same_name_is_kept(store: Store) -> None:
    former = {**CHILD, "metadata": {**CHILD["metadata"], "uid": "u-former"}}
    DisaggregatedMemory(store).drop(Reference.to(former))
    assert find(store) is not None


def test_responses_to_own_writes_are_distinguished_from_other_changes() -> None:
    verdicts: list[bool] = []
    store = Store(lambda before, after: verdicts.append(memory.is_ours(after or before or {})), TABLES)
    memory = DisaggregatedMemory(store)
    memory.put(CHILD)
    metadata = {**CHILD["metadata"], "resourceVersion": "8", "labels": {}}
    store.put({**CHILD, "metadata": metadata})
    memory.put({**CHILD, "metadata": {**metadata, "resourceVersion": "9", "labels": {"a": "b"}}})
    memory.drop(Reference.to(CHILD))
    memory.put({**CHILD, "metadata": {**metadata, "uid": "u-next", "resourceVersion": "11"}})
    store.drop({**CHILD, "metadata": {**metadata, "uid": "u-next", "resourceVersion": "11"}})
    assert verdicts == [True, False, True, True, True, False]
