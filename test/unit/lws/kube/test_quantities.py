"""lws.kube.quantities: parsing, comparison and formatting of quantities; int-or-percent values."""

from __future__ import annotations

import pytest

from lws.kube.quantities import INT32, MILLI, canonical, is_integer, parse, scaled, whole_number

CANONICAL = [
    # Values from the API documentation, or as its own implementation writes them.
    ("0", "0"),
    ("1000", "1k"),
    ("1000m", "1"),
    ("1.5", "1500m"),
    ("0.1", "100m"),
    ("1024Ki", "1Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("0.1Gi", "107374182400m"),
    ("512Mi", "512Mi"),
    ("1000Mi", "1000Mi"),
    ("12345", "12345"),
    ("5e-1", "500e-3"),
    ("2e1", "20"),
    ("0.0001", "100u"),
    # Notations that are kept: whole thousands of the unit, without surrounding zeros.
    ("1.500", "1.500"),
    ("1E3", "1E3"),
    ("1e9", "1e9"),
    ("007", "007"),
    ("+5", "+5"),
    ("1.G", "1.G"),
    ("1500u", "1500u"),
    ("123Mi", "123Mi"),
    # Notations that are changed.
    ("0.5", "500m"),
    ("00", "0"),
    ("0Gi", "0"),
    ("0.000", "0"),
    ("0e5", "0"),
    ("1e3k", None),
    ("10000m", "10"),
    ("100000m", "100"),
    ("1000G", "1T"),
    ("1000000", "1M"),
    ("1e1", "10"),
    ("12e4", "120e3"),
    ("1E", "1E"),
    ("2048Ki", "2Mi"),
    ("1023Ki", "1023Ki"),
    ("0.5Gi", "512Mi"),
    ("1.25Ki", "1280"),
    ("-1.5", "-1500m"),
    ("-1.5Gi", "-1536Mi"),
    ("-0.5Ki", "-512"),
    ("0.0000000001", "1n"),
    ("-0.0000000001", "-1n"),
    ("1.0000000001", "1000000001n"),
    ("1234567890123456789", "1234567890123456789"),
    ("1000000000000000000000", "1"),
    ("9Ei", "9223372036854775807"),
    ("-9Ei", "-9223372036854775807"),
    ("7Ei", "7Ei"),
    (" 1Gi ", "1Gi"),
    (1, "1"),
    (1000, "1k"),
    (0.5, "500m"),
    (1.0, "1"),
    (1e9, "1G"),
]


def canonical_or_none(written: str | int | float) -> str | None:
    try:
        return canonical(written)
    except ValueError as error:
        assert "not a quantity" in str(error)
        return None


def test_canonical() -> None:
    assert [(written, canonical_or_none(written)) for written, _ in CANONICAL] == CANONICAL


def test_the_canonical_text_is_stable() -> None:
    texts = [expected for _, expected in CANONICAL if expected is not None]
    assert [canonical(text) for text in texts] == texts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("1500u", "2m", id="up to a thousandth"),
        pytest.param("-1500u", "-2m", id="away from zero"),
        pytest.param("1n", "1m", id="never down to nothing"),
        pytest.param("0.0001", "1m", id="fraction"),
        pytest.param("1.500", "1.500", id="no rounding, spelling is kept"),
        pytest.param("1.5", "1500m", id="nothing to round, canonical"),
        pytest.param("0.1Gi", "107374182400m", id="binary"),
        pytest.param("0", "0", id="zero"),
    ],
)
def test_resource_lists_are_rounded_to_thousandths(written: str, expected: str) -> None:
    assert canonical(written, MILLI) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        ".",
        "-",
        "Gi",
        "abc",
        "1 Gi",
        "1gi",
        "1KI",
        "1e",
        "1e+",
        "1.2.3",
        "--1",
        "0x10",
        "1_000",
        "1,5",
        "١",
        "1e5k",
        "nan",
    ],
)
def test_invalid_quantities_are_rejected_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity; write digits and a unit, such as 500m"):
        parse(written)


def test_a_million_digits_are_rejected_quickly() -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse("1" * 1_000_000)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("1", "1001m"),
        ("1G", "1Gi"),
        ("-1", "0"),
        ("0.9", "1"),
        ("999Mi", "1Gi"),
        ("1e999999998", "1e999999999"),
        ("-1e999999999", "1n"),
    ],
)
def test_order(smaller: str, larger: str) -> None:
    assert parse(smaller) < parse(larger)
    assert parse(larger) > parse(smaller)
    assert parse(smaller) != parse(larger)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "1500m"),
        ("1Gi", "1024Mi"),
        ("1Gi", "1073741824"),
        ("1.500", "1500m"),
        ("0", "0Ki"),
        ("1e3", "1k"),
    ],
)
def test_equal_values_are_equal_and_hash_alike(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))


def test_a_quantity_is_not_its_text() -> None:
    assert parse("1") != "1"


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (0, 10, 0, 0),
        (3, 10, 3, 3),
        (12, 10, 12, 12),
        ("0%", 10, 0, 0),
        ("25%", 10, 3, 2),
        ("25%", 4, 1, 1),
        ("1%", 3, 1, 0),
        ("100%", 7, 7, 7),
        ("150%", 3, 5, 4),
        ("33%", 0, 0, 0),
        ("007%", 100, 7, 7),
    ],
)
def test_int_or_percent(value: int | str, total: int, up: int, down: int) -> None:
    assert scaled(value, total, round_up=True) == up
    assert scaled(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["", "%", "25", "-25%", "2.5%", "25 %", "25%%", "a%", "٢٥%", "25%\n"])
def test_any_other_string_is_rejected(value: str) -> None:
    with pytest.raises(ValueError, match="neither a whole number nor a percentage"):
        scaled(value, 10, round_up=True)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(INT32), INT32),
        (str(INT32 + 1), None),
        ("9" * 5000, None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("1.0", None),
        ("٣", None),
        ("", None),
        (1, None),
        (None, None),
    ],
    ids=repr,
)
def test_whole_numbers(text: object, number: int | None) -> None:
    assert whole_number(text) == number


def test_bounds_of_whole_numbers() -> None:
    assert [whole_number(text, least=1, most=9) for text in ("0", "1", "9", "10")] == [None, 1, 9, None]
    assert [whole_number(text, least=-5) for text in ("-5", "-6")] == [-5, None]


@pytest.mark.parametrize(
    ("value", "expected"), [(0, True), (-1, True), (True, False), (1.0, False), ("1", False)]
)
def test_integers(value: object, expected: bool) -> None:
    assert is_integer(value) is expected
