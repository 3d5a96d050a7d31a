"""test.bench.shapes: names of loads, and what a name implies."""

from __future__ import annotations

import pytest

from test.bench.shapes import DEFAULT, LARGE, Shape, parse


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        pytest.param("1x400x4", Shape(1, 400, 4), id="whole"),
        pytest.param("400x4", Shape(1, 400, 4), id="one-set"),
        pytest.param("1x20x4-hash", Shape(1, 20, 4, is_hash=True), id="groups with keys"),
        pytest.param(
            "400x4-hash-ending", Shape(1, 400, 4, is_hash=True, is_ending=True), id="pods that end slowly"
        ),
        pytest.param(" 200x1x4\n", Shape(200, 1, 4), id="blanks"),
    ],
)
def test_names(text: str, shape: Shape) -> None:
    assert parse(text) == shape
    assert parse(shape.name) == shape


@pytest.mark.parametrize("text", ["", "400", "0x1x4", "1x0x4", "1x1x1", "1x2x3x4", "axb"])
def test_invalid_shapes_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="x"):
        parse(text)


def test_the_number_of_concurrently_updated_groups() -> None:
    assert [
        (parse(name).max_unavailable, parse(name).wave) for name in ("1x100x4", "50x4x8", "10x500x4")
    ] == [
        ("10%", 10),
        (1, 1),
        ("10%", 50),
    ]
    assert [parse(name).half for name in ("1x100x4", "50x4x8", "200x1x4")] == [50, 2, 1]


def test_all_named_shapes_are_parsed() -> None:
    assert [parse(name).all_groups for name in (*DEFAULT, LARGE)] == [100, 400, 200, 200, 1000]
