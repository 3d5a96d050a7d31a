"""Which Events are combined into one, and with which text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.runtime.actions import Announce, Fold, Reference
from lws.runtime.events import combine, fold_key, format_counts, format_names

SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-1", "42")
POD = Reference("v1", "Pod", "ns", "demo-0", "u-2")
ONE = Announce(
    SET, "Progressing", "Create", "Made workers of demo-0", related=POD, fold=Fold("Made {}", "demo-0")
)
TWO = replace(ONE, note="Made workers of demo-1", fold=Fold("Made {}", "demo-1"))


def test_a_single_event_is_not_changed() -> None:
    assert combine([ONE]) is ONE
    assert combine([ONE, ONE]) == ONE


def test_several_events_list_all_groups() -> None:
    assert combine([TWO, ONE]) == replace(ONE, note="Made demo-0 to demo-1", related=None)
    leaders = Reference("apps/v1", "StatefulSet", "ns", "demo", "u-3")
    both = [
        replace(event, fold=Fold("Made {}", name, leaders)) for event, name in ((ONE, "d-0"), (TWO, "d-1"))
    ]
    assert combine(both).related == leaders


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(ONE, fold=None), id="never-folded"),
        pytest.param(replace(ONE, fold=Fold("Lost {}", "demo-1")), id="another-template"),
        pytest.param(replace(ONE, regarding=replace(SET, uid="u-9")), id="another-set"),
        pytest.param(replace(ONE, reason="Other"), id="reason"),
        pytest.param(replace(ONE, action="Other"), id="action"),
        pytest.param(replace(ONE, type="Warning"), id="type"),
    ],
)
def test_events_that_are_not_combined(other: Announce) -> None:
    assert fold_key(ONE) != fold_key(other)


def test_events_of_another_group_of_the_set_are_combined() -> None:
    newer = replace(TWO, regarding=replace(SET, resource_version="43"))
    assert fold_key(ONE) == fold_key(newer) is not None


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(["demo-4"], "demo-4", id="one"),
        pytest.param(["demo-10", "demo-9", "demo-2"], "demo-2, demo-9 to demo-10", id="runs"),
        pytest.param(["a-1", "b-2"], "a-1, b-2", id="two-sets"),
        pytest.param(
            [f"d-{index}" for index in range(0, 26, 2)],
            "d-0, d-2, d-4, d-6, d-8, d-10, d-12, d-14, d-16, d-18 and 3 more",
            id="many-runs",
        ),
        pytest.param(["demo-1-decode", "demo-1-prefill"], "demo-1-decode, demo-1-prefill", id="no-ordinals"),
        pytest.param(
            ["demo-01", "demo-2", "demo-99999999999"], "demo-99999999999, demo-01 to demo-2", id="as-they-are"
        ),
    ],
)
def test_names_by_their_ordinals(names: list[str], text: str) -> None:
    assert format_names(names) == text


def _scaled(member: str, before: int, after: int) -> Announce:
    note = f"Scaling up {member} from {before} to {after} replicas"
    return replace(ONE, note=note, fold=Fold("Scaling up {}", member, SET, (before, after), waits=True))


def test_a_single_change_is_not_changed() -> None:
    assert combine([_scaled("a", 1, 2)]) == _scaled("a", 1, 2)


def test_changes_of_one_role_are_merged() -> None:
    combined = combine([_scaled("a", 1, 2), _scaled("a", 2, 3), _scaled("a", 3, 7)])
    assert (combined.note, combined.related) == ("Scaling up a from 1 to 7 replicas", POD)


def test_changes_of_several_members_are_listed_in_order() -> None:
    combined = combine([_scaled("b", 1, 2), _scaled("a", 4, 6), _scaled("b", 2, 3)])
    assert combined.note == "Scaling up b from 1 to 3 replicas, a from 4 to 6 replicas"
    assert combined.related == SET


def test_the_first_ten_of_many_changes_are_listed() -> None:
    text = format_counts((f"d-{index}", index, index + 1) for index in range(13))
    assert text.endswith("d-9 from 9 to 10 replicas and 3 more")
