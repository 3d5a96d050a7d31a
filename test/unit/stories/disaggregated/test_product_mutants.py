"""A pass that breaks a promise beyond the planner's is caught by the promise."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from lws.actions import Object, Plan
from lws.children import repair
from lws.disaggregatedset import plan
from test.unit.stories.test_disaggregated_attacks import BUDGETS, begin, image

whole = plan._plan_whole


def recorded_last(wanted: Any, target: Any) -> Plan:
    """Children of a revision are made before it is recorded."""
    planned = whole(wanted, target)
    if not target.actions:
        return planned
    (sequence,) = planned.sequences
    recording = len(target.actions)
    return replace(planned, sequences=((*sequence[recording:], *sequence[:recording]),))


def rolling(_: str, child: Object, *__: Any) -> Plan:
    """Edits of a role go into the template of what runs."""
    metadata = {"labels": {"edited": "true"}}
    template = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"metadata": metadata}}}}
    return repair(child, {"edited": template})


@pytest.mark.parametrize(
    ("name", "mutant", "promise"),
    [
        pytest.param("_plan_whole", recorded_last, "record", id="a revision is recorded after its children"),
        pytest.param("plan_upkeep", rolling, "reason", id="an edit of a role rolls what runs"),
    ],
)
def test_the_promise_of_a_rule_catches_what_breaks_it(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, name: str, mutant: Any, promise: str
) -> None:
    attack = begin(loop, BUDGETS[0])
    monkeypatch.setattr(plan, name, mutant)
    attack.world.edit(image("b"))
    with pytest.raises(AssertionError, match=f"^{promise}: "):
        attack.go()
