"""Which Events are told together, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.actions import Announce, Fold, Reference
from lws.cluster.write.event_folds import fold_key, folded, listed

SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-1", "42")
POD = Reference("v1", "Pod", "ns", "demo-0", "u-2")
ONE = Announce(
    SET, "Progressing", "Create", "Made workers of demo-0", related=POD, fold=Fold("Made {}", "demo-0")
)
TWO = replace(ONE, note="Made workers of demo-1", fold=Fold("Made {}", "demo-1"))


def test_one_alone_stays_as_it_is() -> None:
    assert folded([ONE]) is ONE
    assert folded([ONE, ONE]) == ONE


def test_several_name_all() -> None:
    assert folded([TWO, ONE]) == replace(ONE, note="Made demo-0 to demo-1", related=None)
    leaders = Reference("apps/v1", "StatefulSet", "ns", "demo", "u-3")
    both = [replace(each, fold=Fold("Made {}", name, leaders)) for each, name in ((ONE, "d-0"), (TWO, "d-1"))]
    assert folded(both).related == leaders


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
def test_what_is_told_apart(other: Announce) -> None:
    assert fold_key(ONE) != fold_key(other)


def test_another_group_of_the_set_is_told_together() -> None:
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
    ],
)
def test_names_by_their_ordinals(names: list[str], text: str) -> None:
    assert listed(names) == text
