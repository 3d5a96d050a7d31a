"""Tests that readable parts of a stored status are kept, and that unreadable ones count as lost."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.tables import readable_status
from test.unit.disaggregated import make_disaggregated
from test.unit.lws.disaggregatedset.status.test_status import written


@pytest.mark.parametrize(
    ("name", "garbage"),
    [
        ("conditions", "all is well"),
        ("conditions", [{"type": "Available"}]),
        ("roleStatuses", [7]),
        ("roleStatuses", [{"name": "prefill", "readyReplicas": "two"}]),
        ("rollouts", {"0": {"revision": "x", "targets": []}}),
        ("sliceStatuses", [{"index": "0"}]),
        ("lastProgressTime", 7),
        ("pending", "spec"),
    ],
)
def test_what_cannot_be_read_counts_as_lost_and_is_written_anew(name: str, garbage: Any) -> None:
    whole = written()
    stored = {**whole, name: garbage}
    read = readable_status(stored, make_disaggregated())
    assert read == {**whole, name: None}
    assert written(read).get(name) == whole.get(name)


def test_what_can_be_read_stays_and_so_does_what_is_not_ours() -> None:
    whole = {**written(), "theirs": [None]}
    assert readable_status(whole, make_disaggregated()) == whole
    assert readable_status([7], make_disaggregated()) == {}
