"""lws.history: names and numbers of new revisions."""

from __future__ import annotations

from lws.history.revision import HIGHEST_NUMBER, Place, free_place, revision_name, stem_of, storable

OWNER = {"metadata": {"name": "demo"}}


def test_long_names_of_owners_are_truncated() -> None:
    owner = {"metadata": {"name": "d" * 253}}
    assert stem_of(owner) == "d" * 220
    assert len(revision_name(owner, "980bcb92", HIGHEST_NUMBER)) <= 253


def test_taken_names_are_skipped_by_higher_revision_numbers() -> None:
    assert free_place(OWNER, "k", 4, {"demo-k-3", "demo-x-4"}) == Place(4)
    assert free_place(OWNER, "k", 4, {"demo-k-4", "demo-k-5"}) == Place(6, ("demo-k-4", "demo-k-5"))
    crowd = {f"demo-k-{number}" for number in range(1, 1000)}
    assert len(free_place(OWNER, "k", 1, crowd).skipped) < 20, "after a few names, larger steps follow"


def test_revision_numbers_are_limited_to_the_highest_storable_one() -> None:
    assert (storable(7), storable(HIGHEST_NUMBER + 1)) == (7, HIGHEST_NUMBER)
