"""Tests of lws.disaggregatedset.status: what counts as progress since the recorded status."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import ChildFacts
from lws.disaggregatedset.status import has_come_closer, role_counts, slice_counts
from test.unit.disaggregated import make_disaggregated, make_facts

OWNER = make_disaggregated()
NEW, OLD = "1" * 8, "2" * 8


def facts(key: str, replicas: int, *, index: int = 0, role: str = "prefill", **more: Any) -> ChildFacts:
    return make_facts(OWNER, Identity(index, key, role), replicas, **more)


def remembered(*children: ChildFacts, listed: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    """Return the status that was written for these children.

    listed: indices of the slices that the status has room for.
    """
    slices = [row for row in slice_counts(children, NEW, frozenset()) if row["index"] in listed]
    roles = [row.stored for row in role_counts(["prefill", "decode"], children, NEW)]
    return {"sliceStatuses": slices, "roleStatuses": roles}


ROLLING = (facts(OLD, 2), facts(NEW, 1, ready=0))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(ROLLING, ROLLING, False, id="nothing"),
        pytest.param(ROLLING, (facts(OLD, 2), facts(NEW, 1)), True, id="a new group is ready"),
        pytest.param(
            ROLLING,
            (facts(OLD, 1, existing=2), ROLLING[1]),
            False,
            id="an old group is to be deleted",
        ),
        pytest.param(ROLLING, (facts(OLD, 1), ROLLING[1]), True, id="an old group is deleted"),
        pytest.param((facts(OLD, 2, ready=1), ROLLING[1]), ROLLING, False, id="an old group is ready again"),
        pytest.param(
            ROLLING, (facts(OLD, 2, existing=1, ready=1), ROLLING[1]), False, id="an old group is recreated"
        ),
        pytest.param(
            ROLLING, (facts(OLD, 2), facts(NEW, 1, existing=0, ready=0)), False, id="a new group is recreated"
        ),
        pytest.param(
            ROLLING, (*ROLLING, facts(NEW, 1, ready=0, role="decode")), False, id="a role is created"
        ),
        pytest.param(ROLLING, (*ROLLING, facts(NEW, 1, role="decode")), True, id="and is ready"),
        pytest.param(ROLLING, (ROLLING[1],), True, id="the rest of the old revision is deleted"),
        pytest.param(ROLLING, (*ROLLING, facts(NEW, 1, ready=0, index=1)), False, id="a slice is created"),
        pytest.param(ROLLING, (*ROLLING, facts(NEW, 1, index=1)), True, id="and serves"),
        pytest.param((), (), False, id="no children"),
        pytest.param((), ROLLING[1:], False, id="the first child is created"),
    ],
)
def test_changes_that_count_as_progress(
    before: tuple[ChildFacts, ...], now: tuple[ChildFacts, ...], expected: bool
) -> None:
    assert has_come_closer(remembered(*before), now, NEW) == expected


@pytest.mark.parametrize(("ready", "expected"), [(0, False), (1, True)])
def test_a_slice_omitted_from_a_long_status_is_judged_by_the_total(ready: int, expected: bool) -> None:
    left_out = facts(NEW, 1, ready=0, index=1)
    stored = remembered(*ROLLING, left_out, listed=(0,))
    assert has_come_closer(stored, (*ROLLING, facts(NEW, 1, ready=ready, index=1)), NEW) == expected


def test_a_status_written_by_upstream_has_no_slices() -> None:
    stored = {"roleStatuses": [{"name": "prefill", "replicas": 1}]}
    assert not has_come_closer(stored, (facts(NEW, 1, ready=0),), NEW)
    assert has_come_closer(stored, (facts(NEW, 1),), NEW)
