"""lws.cli.views.plan: what an apply would do to a set, as text and as data."""

from __future__ import annotations

from lws.cli.blocks import plain
from lws.cli.facts.creation import update_from_rest
from lws.cli.facts.impact import impact
from lws.cli.views.plan import SetPlan, plan_blocks, plan_data
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.simulation import simulate
from test.unit.builders import NOW
from test.unit.lws.cli.histories import revision_of, sets, snapshot_of

A, B = sets("app:1", "app:2", replicas=3)
CHANGE = "worker template container main image: app:1 → app:2"


def test_an_update() -> None:
    effect = impact(snapshot_of(A, [revision_of(A, 1)]), {}, B)
    plan = SetPlan(B, "configured", effect, simulate(effect.after.rollout))
    lines = list(plain(plan_blocks(plan)))
    assert lines[:3] == [
        "groups 0 to 2 restart, by a rollout, one at a time",
        f"  {CHANGE}",
        "steps, if every new group gets ready:",
    ]
    data = plan_data(plan)
    steps = data.pop("steps")
    assert data == {
        "name": "demo",
        "namespace": "default",
        "action": "configured",
        "key": record(B).key,
        "replicas": 3,
        "added": [],
        "removed": [],
        "restarts": [0, 1, 2],
        "restartsAnyway": [],
        "recreated": [],
        "unknown": [],
        "changes": [CHANGE],
        "changesAtOnce": [],
        "leftAlone": "",
        "waitingFor": "",
    }
    assert len(steps) == len(lines) - 4
    assert (steps[-1]["partition"], steps[-1]["replicas"]) == (0, 3)


def test_steps_only_if_they_are_asked_for() -> None:
    effect = impact(snapshot_of(A, [revision_of(A, 1)]), {}, A)
    plan = SetPlan(A, "unchanged", effect, None)
    assert list(plain(plan_blocks(plan))) == ["no pod is restarted: nothing changes"]
    assert not {"steps", "waitingFor"} & plan_data(plan).keys()


def test_a_new_set() -> None:
    plan = SetPlan(A, "created", None, simulate(update_from_rest(A, NOW)))
    lines = list(plain(plan_blocks(plan)))
    assert lines[0].startswith("new: 3 groups of 2 pods, 6 in all")
    assert lines[1] == "a later update of all its groups:"
    data = plan_data(plan)
    assert (data["action"], data["added"], len(data["steps"])) == ("created", [0, 1, 2], len(lines) - 4)
    assert "restarts" not in data
