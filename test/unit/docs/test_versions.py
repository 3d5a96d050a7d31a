"""README, install guide and test/README.md name the Kubernetes versions on which the tests have passed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.localcluster.versions import END_TO_END, INTEGRATION, OTHERS, RELEASES, TESTED

ROOT = Path(__file__).parents[3]
DOCUMENTS = ("README.md", "docs/start/install.md", "test/README.md")

_NAMES = {
    frozenset({INTEGRATION, END_TO_END, OTHERS}): "all tests",
    frozenset({INTEGRATION, END_TO_END}): "the integration and end-to-end tests",
    frozenset({INTEGRATION}): "the integration tests",
    frozenset({END_TO_END}): "the end-to-end tests",
    frozenset[str](): "none",
}


def claim(tested: Mapping[str, frozenset[str]]) -> str:
    """Return which suites passed on which versions, as words.

    The largest combination of suites comes first, and within it the newest version.
    """
    parts = []
    for suites, name in _NAMES.items():
        minors = [minor for minor in reversed(list(tested)) if tested[minor] == suites]
        if minors:
            *first, last = minors
            parts.append(f"{name} on {' and '.join([', '.join(first), last] if first else [last])}")
    return ", ".join(parts)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_the_versions_that_have_passed(document: str) -> None:
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    assert claim(TESTED) in text.replace("`", "")


def test_every_version_in_the_table_has_known_suites() -> None:
    assert list(TESTED) == list(RELEASES)
    assert set(TESTED.values()) <= set(_NAMES)


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ({"1.2": {INTEGRATION, END_TO_END, OTHERS}}, "all tests on 1.2"),
        (
            {"1.2": {INTEGRATION}, "1.3": {END_TO_END}},
            "the integration tests on 1.2, the end-to-end tests on 1.3",
        ),
        (
            {"1.1": set(), "1.2": set(), "1.3": {END_TO_END, INTEGRATION}},
            "the integration and end-to-end tests on 1.3, none on 1.2 and 1.1",
        ),
        ({"1.1": set(), "1.2": set(), "1.3": set()}, "none on 1.3, 1.2 and 1.1"),
    ],
    ids=["all", "one each", "two and none", "three"],
)
def test_a_table_is_summarised_in_words(tested: Mapping[str, set[str]], words: str) -> None:
    assert claim({minor: frozenset(suites) for minor, suites in tested.items()}) == words
