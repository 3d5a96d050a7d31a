"""test.bench.disaggregated.shape: names of DisaggregatedSet loads, and what a name implies."""

from __future__ import annotations

import pytest

from test.bench.disaggregated.shape import DEFAULT, PairedShape, is_paired, parse


def test_names() -> None:
    assert parse(" ds100x2x3x4\n") == PairedShape(100, 2, 3, 4)
    assert parse(DEFAULT).name == DEFAULT and parse(DEFAULT).all_groups == 400
    assert is_paired(DEFAULT) and not is_paired("1x400x4")


@pytest.mark.parametrize(
    "text", ["100x2x2x2", "ds100x2x2", "ds0x2x2x2", "ds1x0x2x2", "ds1x9x2x2", "ds1x2x0x2", "ds1x2x2x1"]
)
def test_invalid_shapes_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"ds100x2x2x2|at least one set"):
        parse(text)


def test_the_rollout_matches_the_planner() -> None:
    shape = parse("ds1x2x2x2")
    rows = [tuple(shape.counts(row).values()) for row in shape.rows]
    assert rows == [(2, 2, 0, 0), (2, 2, 1, 1), (1, 1, 1, 1), (1, 1, 2, 2), (0, 0, 2, 2)]
    assert (shape.steps, shape.changes) == (4, 8)
