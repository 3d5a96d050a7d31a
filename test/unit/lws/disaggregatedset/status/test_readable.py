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
def test_an_unreadable_field_becomes_null_and_is_written_again(name: str, garbage: Any) -> None:
    status = written()
    stored = {**status, name: garbage}
    read = readable_status(stored, make_disaggregated())
    assert read == {**status, name: None}
    assert written(read).get(name) == status.get(name)


def test_readable_and_foreign_fields_are_kept() -> None:
    status = {**written(), "theirs": [None]}
    assert readable_status(status, make_disaggregated()) == status
    assert readable_status([7], make_disaggregated()) == {}
