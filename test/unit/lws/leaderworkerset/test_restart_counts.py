"""Tests of the restart counts in the annotation of a set and of the marks of pods, as upstream has them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lws.leaderworkerset.restart_counts import (
    Counts,
    InvalidCounts,
    InvalidKey,
    count_key,
    counts_in,
    increment,
    is_counted,
    is_exhausted,
    is_kept,
    pruned,
    reset,
    should_recover,
)
from lws.runtime.actions import Merge
from lws_api.leaderworkerset.v1 import (
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
)
from test.unit.builders import KEY, make_leader_pod, make_set

NO_OBJECT = "invalid group restart counts: expected a JSON object"


def counted(text: str | None) -> dict[str, Any]:
    return make_set(annotations={GROUP_RESTART_COUNTS_ANNOTATION: text} if text is not None else None)


def written(merge: Merge | None) -> Any:
    assert merge is not None
    metadata = merge.patch["metadata"]
    assert (merge.target.kind, merge.target.uid) == ("LeaderWorkerSet", "uid-of-set-demo")
    assert metadata["resourceVersion"] == "1", "groups fail at the same time, and no count gets lost"
    return metadata["annotations"][GROUP_RESTART_COUNTS_ANNOTATION]


def test_the_count_key_is_revision_and_index() -> None:
    assert count_key(make_leader_pod(index=3)) == f"{KEY}/3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, {}, id="nothing"),
        pytest.param("", {}, id="empty"),
        pytest.param("{}", {}, id="no group"),
        pytest.param(
            '{"revision-a/0":1,"revision-a/12":0}', {"revision-a/0": 1, "revision-a/12": 0}, id="two"
        ),
    ],
)
def test_counts_are_read(text: str | None, expected: dict[str, int]) -> None:
    assert counts_in(counted(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", NO_OBJECT, id="no JSON"),
        pytest.param("[" * 100_000, NO_OBJECT, id="too deep"),
        pytest.param("null", NO_OBJECT, id="null"),
        pytest.param("[]", NO_OBJECT, id="a list"),
        pytest.param('{"a/0":"1"}', NO_OBJECT, id="text"),
        pytest.param(r'{"\ud800/0":1}', NO_OBJECT, id="half a character"),
        pytest.param('{"a/0":true}', NO_OBJECT, id="true"),
        pytest.param('{"a/0":4294967296}', NO_OBJECT, id="too large for upstream"),
        pytest.param(
            '{"a/0":-1}', 'invalid group restart count for group "a/0": must be non-negative', id="negative"
        ),
    ],
)
def test_unreadable_counts_are_not_changed(text: str, message: str) -> None:
    lws, leader = counted(text), make_leader_pod()
    for change in (
        lambda: counts_in(lws),
        lambda: increment(lws, leader, ()),
        lambda: reset(lws, leader),
        lambda: pruned(lws, 1, None),
    ):
        with pytest.raises(InvalidCounts) as error:
            change()
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, f'{{"{KEY}/1":1}}', id="the first"),
        pytest.param(f'{{"{KEY}/1":2}}', f'{{"{KEY}/1":3}}', id="one more"),
        pytest.param(f'{{"z/1":7,"{KEY}/0":2}}', f'{{"{KEY}/0":2,"{KEY}/1":1,"z/1":7}}', id="others stay"),
    ],
)
def test_a_restart_is_counted(before: str | None, after: str) -> None:
    merge = increment(counted(before), make_leader_pod(index=1), ())
    assert written(merge) == after
    assert merge.why == f"restart {after.partition(f'{KEY}/1')[2][2]} of group {KEY}/1"


def test_a_count_names_the_leader_that_it_is_for() -> None:
    """The write that counts names the leader. Leaders that have been deleted are forgotten then."""
    first, second, third = (make_leader_pod(index=index, uid=f"u-{index}") for index in range(3))
    lws = make_set()
    for leader, leaders, expected in (
        (first, ("u-0", "u-1", "u-2"), [True, False, False]),
        (second, ("u-0", "u-1", "u-2"), [True, True, False]),
        (third, ("u-1", "u-2"), [False, True, True]),
    ):
        patch = increment(lws, leader, leaders).patch["metadata"]["annotations"]
        lws = make_set(annotations=patch)
        assert [is_counted(lws, leader) for leader in (first, second, third)] == expected
    assert counts_in(lws) == {f"{KEY}/0": 1, f"{KEY}/1": 1, f"{KEY}/2": 1}, "as upstream reads it"


@pytest.mark.parametrize("text", ["", ",", "garbled", "0" * 100_000, "\ud800", "{}"])
def test_a_garbled_record_of_counted_leaders_counts_again(text: str) -> None:
    annotations = {GROUP_RESTARTS_COUNTED_FOR_ANNOTATION: text, GROUP_RESTART_COUNTS_ANNOTATION: "{}"}
    lws, leader = make_set(annotations=annotations), make_leader_pod()
    assert not is_counted(lws, leader)
    written = increment(lws, leader, ("another",)).patch["metadata"]["annotations"]
    assert len(written[GROUP_RESTARTS_COUNTED_FOR_ANNOTATION]) == 8, "what was not written here goes"


def test_counted_leaders_go_with_the_last_count() -> None:
    texts = {GROUP_RESTART_COUNTS_ANNOTATION: f'{{"{KEY}/0":1}}', GROUP_RESTARTS_COUNTED_FOR_ANNOTATION: "a"}
    merge = reset(make_set(annotations=texts), make_leader_pod())
    assert merge is not None and merge.patch["metadata"]["annotations"] == dict.fromkeys(texts)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f'{{"{KEY}/0":2}}', None, id="the last: without the annotation"),
        pytest.param(f'{{"{KEY}/0":2,"{KEY}/1":1}}', f'{{"{KEY}/1":1}}', id="others stay"),
    ],
)
def test_the_count_of_a_recovered_group_is_removed(before: str, after: str | None) -> None:
    assert written(reset(counted(before), make_leader_pod())) == after


def test_nothing_is_written_without_a_count() -> None:
    assert reset(counted(f'{{"{KEY}/1":1}}'), make_leader_pod()) is None
    assert pruned(counted(None), 2, {KEY}) is None


@pytest.mark.parametrize(
    ("replicas", "live", "after"),
    [
        pytest.param(3, None, None, id="live revisions are unknown"),
        pytest.param(3, {"a", "b", "c"}, None, id="in a rollout live revisions stay"),
        pytest.param(2, None, '{"a/0":1,"b/1":3}', id="scaled down"),
        pytest.param(3, {"b"}, '{"b/1":3}', id="the rollout is done"),
        pytest.param(1, {"b"}, "", id="nothing is left: without the annotation"),
    ],
)
def test_counts_of_deleted_groups_and_revisions_are_removed(
    replicas: int, live: set[str] | None, after: str | None
) -> None:
    merge = pruned(counted('{"a/0":1,"a/2":2,"b/1":3}'), replicas, live)
    if after is None:
        assert merge is None
    else:
        assert written(merge) == (after or None)


@pytest.mark.parametrize("key", ["a", "a/x", "a/-1", "/0", ""])
def test_a_key_without_an_index_stops_pruning(key: str) -> None:
    with pytest.raises(InvalidKey) as error:
        pruned(counted(f'{{"a/0":1,"{key}":2}}'), 9, None)
    assert str(error.value) == f'invalid group restart count key "{key}"'


A, B, C, D = (letter * 40 for letter in "abcd")
"""Keys of Hash groups, in revision r unless another is named."""


def hash_counts(**counts: int) -> dict[str, Any]:
    """Return a set with counts of groups by letter, in revision r, or in revision q after the prefix q."""
    keys = {name: f"{'q' if len(name) > 1 else 'r'}/{name[-1] * 40}" for name in counts}
    return counted(json.dumps({keys[name]: count for name, count in counts.items()}))


def owner(key: str, revision: str = "r") -> tuple[str, int]:
    return revision, int(key[:8], 16)


@pytest.mark.parametrize(
    ("counts", "new", "inherited"),
    [
        pytest.param({"a": 1}, [B], {B: A}, id="one"),
        pytest.param({"a": 1, "b": 3}, [C], {C: B}, id="the highest"),
        pytest.param({"b": 2, "a": 2}, [C], {C: A}, id="of equal ones the smallest key"),
        pytest.param({"a": 1, "b": 3}, [C, D], {C: B, D: A}, id="one for each"),
        pytest.param({"a": 1}, [C, D], {C: A}, id="one is new"),
        pytest.param({"qa": 1}, [B], {}, id="of another revision"),
        pytest.param({"a": 1, "b": 0}, [B], {}, id="it has one already"),
        pytest.param({}, [B], {}, id="nothing is counted"),
    ],
)
def test_a_new_group_inherits_the_highest_free_count(
    counts: dict[str, int], new: list[str], inherited: dict[str, str]
) -> None:
    actual = Counts.of(hash_counts(**counts), set()).inherited(f"r/{key}" for key in new)
    assert actual == {f"r/{key}": f"r/{former}" for key, former in inherited.items()}


def test_a_count_is_free_if_no_group_has_its_key() -> None:
    counts = Counts.of(hash_counts(a=1, b=2, qa=3), {owner(A), owner(B, "q")})
    assert counts.free == (f"q/{A}", f"r/{B}")
    assert Counts.of(counted('{"r/x":1,"r":2}'), {owner(A)}).free == ("r", "r/x")


@pytest.mark.parametrize(
    ("inherited", "released", "spare", "live", "after"),
    [
        pytest.param({}, [], 2, None, None, id="two groups are missing that may claim them"),
        pytest.param({D: C}, [], 1, None, {"a": 1, "b": 2, "d": 3}, id="claimed, one is still missing"),
        pytest.param({D: C}, [], 0, None, {"a": 1, "d": 3}, id="no group is missing"),
        pytest.param({}, [], 1, None, {"a": 1, "c": 3}, id="the highest unclaimed counts are kept"),
        pytest.param({}, [A], 2, None, {"b": 2, "c": 3}, id="the count of a released group"),
        pytest.param({}, [], 2, {"r", "q"}, None, id="both revisions are live"),
        pytest.param({}, [], 2, {"q"}, {}, id="the rollout to q is done"),
    ],
)
def test_counts_are_inherited_kept_or_removed(
    inherited: dict[str, str],
    released: list[str],
    spare: int,
    live: set[str] | None,
    after: dict[str, int] | None,
) -> None:
    """Group a is live."""
    lws = hash_counts(a=1, b=2, c=3)
    merge = Counts.of(lws, {owner(A)}).hand_on(
        lws,
        {f"r/{key}": f"r/{former}" for key, former in inherited.items()},
        [f"r/{key}" for key in released],
        spare,
        live,
    )
    if after is None:
        assert merge is None
        return
    text = written(merge)
    assert json.loads(text or "{}") == {f"r/{name * 40}": count for name, count in after.items()}
    assert text is None or after


def test_counts_of_many_revisions_are_handed_on_in_linear_time() -> None:
    """Users can write the annotation, and all passes share one event loop."""
    lws = counted(json.dumps({f"{number}/x": 0 for number in range(5000)}))
    begun = time.process_time()
    counts = Counts.of(lws, set())
    assert counts.inherited(f"r/{number}" for number in range(5000)) == {}
    assert counts.hand_on(lws, {}, [], 1, None) is None
    assert time.process_time() - begun < 1.0, "comparing each revision with each key takes several seconds"


@pytest.mark.parametrize("text", ["{", "[]", '{"r/x":-1}', '{"r/x":"1"}'])
def test_unreadable_counts_are_not_inherited(text: str) -> None:
    lws = counted(text)
    counts = Counts.of(lws, set())
    assert counts.inherited([f"r/{A}"]) == {} and counts.hand_on(lws, {}, [], 0, {"r"}) is None


@pytest.mark.parametrize("value", ["true", "True", "1", "", None])
def test_only_true_sets_a_mark(value: str | None) -> None:
    names = (RESTART_BUDGET_EXHAUSTED_ANNOTATION, RECOVER_ANNOTATION)
    leader = make_leader_pod(annotations=dict.fromkeys(names, value) if value is not None else None)
    assert not is_exhausted(leader), "the product writes finalizer and mark at once"
    leader["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    assert (is_exhausted(leader), should_recover(leader)) == (value == "true", value == "true")


def test_a_pod_is_kept_by_the_finalizer() -> None:
    leader = make_leader_pod()
    assert not is_kept(leader)
    leader["metadata"]["finalizers"] = ["foregroundDeletion", RESTART_BUDGET_FINALIZER]
    assert is_kept(leader)
