"""Tests that an owner counts as deleted only if the streams show it."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.observe.membership import Owners
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.resources import SERVICES, Resource, Workload
from lws.runtime.store import Store

LABEL = "example.com/farm"
FARM = Workload(Resource("example.com/v1", "Farm", "farms"), LABEL, (SERVICES,), frozenset({"Service"}))


def _object(kind: str, name: str, owner: tuple[str, str] | None = None, of: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": "1"}
    if of:
        metadata["labels"] = {LABEL: of}
    if owner is not None:
        reference = {"kind": owner[0], "name": owner[1], "uid": f"u-{owner[1]}", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("obj", "is_alive"),
    [
        pytest.param(_object("Secret", "a", ("Farm", "green")), True, id="the owner exists"),
        pytest.param(
            _object("Secret", "a", ("Farm", "gone")), False, id="deleted, and all of its kind are watched"
        ),
        pytest.param(_object("Secret", "a", ("Service", "gone")), True, id="may exist unseen"),
        pytest.param(_object("Secret", "a", ("Service", "gone"), of="green"), False, id="would be seen"),
        pytest.param(_object("Secret", "a", ("Pod", "gone"), of="green"), True, id="is not watched"),
    ],
)
def test_alive(obj: dict[str, Any], is_alive: bool) -> None:
    store = Store(lambda before, after: None, TABLES)
    store.put(_object("Farm", "green"))
    owners = Owners(store, FARM).existing_owners(obj, None, _object("Secret", "orphan"))
    assert bool(owners) is is_alive


def test_an_object_with_the_name_and_another_uid_is_not_the_owner() -> None:
    store = Store(lambda before, after: None, TABLES)
    store.put({**_object("Farm", "green"), "metadata": {**_object("Farm", "green")["metadata"], "uid": "u"}})
    assert Owners(store, FARM).existing_owners(_object("Secret", "a", ("Farm", "green"))) == frozenset()
