"""tools.limits: what is too large or badly named is found, with its place; the product itself is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.limits import breaches

LONG = "def f() -> None:\n" + "    pass\n" * 40


def of(tmp_path: Path, text: str, place: str = "lws/some.py") -> list[str]:
    (tmp_path / "api").mkdir(exist_ok=True)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return list(breaches(tmp_path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\n" * 300, [], id="as long as a file may be"),
        pytest.param("x = 1\n" * 301, ["lws/some.py: 301 lines, more than 300"], id="a long file"),
        pytest.param(LONG, ["lws/some.py:1: f has 41 lines, more than 40"], id="a long function"),
        pytest.param(
            "def f(a, b, c, *, d, e, g): ...\n",
            ["lws/some.py:1: f has 6 parameters, more than 5"],
            id="many parameters",
        ),
        pytest.param("class A:\n    def f(self, a, b, c, d, e): ...\n", [], id="self does not count"),
        pytest.param("found = [told for told in ()]\n", [], id="short local names"),
    ],
)
def test_sizes(text: str, expected: list[str], tmp_path: Path) -> None:
    assert of(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "def is_told(): ...",
        "def f(met): ...",
        "class Kin: ...",
        "class A:\n    asked_at: int",
        "def f(self):\n    self._said = 1",
    ],
)
def test_names_that_nobody_outside_would_understand(text: str, tmp_path: Path) -> None:
    assert [line.endswith("say it in a word that Kubernetes uses") for line in of(tmp_path, text)] == [True]


def test_leases_are_held(tmp_path: Path) -> None:
    assert of(tmp_path, "def is_held(): ...", "lws/cluster/leases/lease.py") == []


def test_a_folder_has_fourteen_entries_at_most(tmp_path: Path) -> None:
    for number in range(14):
        assert of(tmp_path, "", f"lws/cluster/module_{number}.py") == []
    assert of(tmp_path, "", "lws/cluster/__init__.py") == []
    assert of(tmp_path, "", "lws/cluster/one_more.py") == [
        "lws/cluster: 15 entries, more than 14: split it by question"
    ]


def test_the_product_keeps_to_them() -> None:
    assert list(breaches()) == []
