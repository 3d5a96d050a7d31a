"""lws.history: names, numbers and keys of new revisions."""

from __future__ import annotations

from lws.history.plan import collisions_below, free_probe
from lws.history.revision import HIGHEST_NUMBER, Place, free_place, revision_name, stem_of, storable

OWNER = {"metadata": {"name": "demo"}}


def test_long_names_of_owners_are_cut() -> None:
    owner = {"metadata": {"name": "d" * 253}}
    assert stem_of(owner) == "d" * 220
    assert len(revision_name(owner, "980bcb92", HIGHEST_NUMBER)) <= 253


def test_a_taken_name_is_passed_over_by_its_number() -> None:
    assert free_place(OWNER, "k", 4, {"demo-k-3", "demo-x-4"}) == Place(4)
    assert free_place(OWNER, "k", 4, {"demo-k-4", "demo-k-5"}) == Place(6, ("demo-k-4", "demo-k-5"))
    crowd = {f"demo-k-{number}" for number in range(1, 1000)}
    assert len(free_place(OWNER, "k", 1, crowd).skipped) < 20, "after a few it goes on in leaps"


def test_the_lowest_probe_whose_key_is_free() -> None:
    keys = ["a", "b", "c"]
    assert free_probe(keys.__getitem__, ()) == 0
    assert free_probe(keys.__getitem__, {"a", "b"}) == 2
    assert free_probe(keys.__getitem__, {"b"}) == 0
    assert collisions_below(keys.__getitem__, 2, {"b", "c"}) == 1


def test_numbers_end_where_they_can_be_stored() -> None:
    assert (storable(7), storable(HIGHEST_NUMBER + 1)) == (7, HIGHEST_NUMBER)
