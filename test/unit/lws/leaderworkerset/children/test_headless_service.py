"""Tests of lws.leaderworkerset.children.services: when the shared Service is deleted.

test_plan.py covers its creation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.children.services import plan_service
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Delete
from test.unit.builders import make_set
from test.unit.set_world import actions_of, carried_out, settled, with_groups, with_spec

UNIQUE = {"subdomainPolicy": "UniquePerReplica"}


def switched() -> SetSnapshot:
    """Return a set whose policy has changed from Shared and whose last group has moved."""
    before = settled(make_set())
    started = with_spec(before, make_set(networkConfig=UNIQUE))
    return with_groups(carried_out(started, plan(started)))


def test_it_goes_when_the_last_group_that_used_it_has_moved() -> None:
    before = settled(make_set())
    started = with_spec(before, make_set(networkConfig=UNIQUE))
    assert not any(
        isinstance(each, Delete) and each.target.kind == "Service" for each in actions_of(plan(started))
    )
    done = switched()
    (delete,) = (each for each in actions_of(plan(done)) if isinstance(each, Delete))
    assert (delete.target.kind, delete.target.name, delete.propagation) == ("Service", "demo", "Background")
    assert done.service is not None
    assert delete.target.uid == done.service["metadata"]["uid"]


def owned_by_nobody(snapshot: SetSnapshot) -> SetSnapshot:
    assert snapshot.service is not None
    service: dict[str, Any] = dict(snapshot.service)
    service["metadata"] = {**service["metadata"], "ownerReferences": []}
    return replace(snapshot, service=service)


def with_key(snapshot: SetSnapshot, key: str) -> SetSnapshot:
    return replace(snapshot, live_keys=snapshot.live_keys | {key})


def old_key(snapshot: SetSnapshot) -> str:
    (key,) = {each.key for each in snapshot.revisions} - snapshot.live_keys
    return key


def without_history(snapshot: SetSnapshot) -> SetSnapshot:
    kept = tuple(each for each in snapshot.revisions if each.key in snapshot.live_keys)
    return replace(snapshot, revisions=kept)


@pytest.mark.parametrize(
    ("snapshot", "is_done"),
    [
        pytest.param(switched(), False, id="a group is still to be updated"),
        pytest.param(with_key(switched(), old_key(switched())), True, id="a pod still has the old revision"),
        pytest.param(with_key(switched(), "unknown"), True, id="nobody knows what a pod was made from"),
        pytest.param(without_history(switched()), True, id="an earlier release has left it behind"),
        pytest.param(owned_by_nobody(switched()), True, id="it is not ours"),
        pytest.param(replace(switched(), service=None), True, id="it is gone"),
    ],
)
def test_it_stays(snapshot: SetSnapshot, is_done: bool) -> None:
    assert plan_service(snapshot, is_done).sequences == ()


def test_switched_back_it_comes_again() -> None:
    gone = replace(switched(), service=None)
    back = with_spec(gone, make_set())
    ((create,),) = plan_service(back, False).sequences
    assert "create" in type(create).__name__.lower()
