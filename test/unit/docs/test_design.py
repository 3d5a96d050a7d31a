"""The pages for maintainers lead to files and names that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
# A linked file, then the names in it that the sentence begins with.
STEP = re.compile(r"\[`([\w/.]+)`\]\(\.\./\.\./([\w/.]+)\)((?:[:,]?\s+`[\w.]+`)*)")
MOST_FILES = 12


def text_of(name: str) -> str:
    return (DESIGN / name).read_text(encoding="utf-8")


def steps_in(text: str) -> list[tuple[str, list[str]]]:
    """File → names in it."""
    steps = []
    for shown, target, names in STEP.findall(text):
        assert shown == target
        steps.append((target, re.findall(r"`([\w.]+)`", names)))
    return steps


def missing_in(text: str) -> Iterator[str]:
    for target, names in steps_in(text):
        path = ROOT / target
        if not path.is_file():
            yield target
            continue
        source = path.read_text(encoding="utf-8")
        for name in names:
            if not all(is_defined(part, source) for part in name.split(".")):
                yield f"{target}: {name}"


def is_defined(name: str, source: str) -> bool:
    definition = rf"^\s*(?:(?:async )?def|class) {name}\b|^{name}(?:: [^=]+)? = "
    return re.search(definition, source, re.MULTILINE) is not None


@pytest.mark.parametrize("page", ["event.md", "where.md"])
def test_every_file_and_name_is_there(page: str) -> None:
    assert list(missing_in(text_of(page))) == []


@pytest.mark.parametrize("page", ["event.md", "where.md"])
def test_every_file_that_is_named_in_passing_is_there(page: str) -> None:
    named = re.findall(r"`((?:api|lws|docs|charts|test)/[\w/.-]+\.\w+)`", text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_an_event_is_followed_through_a_dozen_files_at_most() -> None:
    files = [path for path, _ in steps_in(text_of("event.md"))]
    assert 8 <= len(files) == len(set(files)) <= MOST_FILES


def test_ten_requests_name_two_or_three_files_each() -> None:
    _, *requests = re.split(r"^## ", text_of("where.md"), flags=re.MULTILINE)
    assert len(requests) >= 10
    assert {len(steps_in(request)) for request in requests} <= {2, 3}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("[`lws/runtime/actions.py`](../../lws/runtime/actions.py): `Plan`, and more", []),
        (
            "[`lws/runtime/actions.py`](../../lws/runtime/actions.py): `Plna`",
            ["lws/runtime/actions.py: Plna"],
        ),
        ("[`lws/gone.py`](../../lws/gone.py)", ["lws/gone.py"]),
    ],
)
def test_what_is_missing_is_seen(text: str, missing: list[str]) -> None:
    assert list(missing_in(text)) == missing
