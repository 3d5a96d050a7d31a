"""test.bench.pass_cost: the measured pass makes the decision that its phase is named after."""

from __future__ import annotations

import pytest

from lws.runtime.actions import Action, Apply, Merge
from test.bench.pass_cost import LargeSet, measure


@pytest.mark.parametrize(
    ("phase", "written"),
    [("at rest", []), ("rollout", [Merge, Apply]), ("create", [])],
)
def test_groups_become_ready_in_every_other_pass(phase: str, written: list[type[Action]]) -> None:
    subject = LargeSet(40, 4, phase)
    subject.pass_()
    assert subject.planned.waiting_for.endswith("to be ready")
    subject.pass_()
    assert [type(action) for sequence in subject.planned.sequences for action in sequence] == written


def test_both_parts_of_a_pass_take_time() -> None:
    assert all(seconds > 0 for seconds in measure(4, 2, "rollout"))
