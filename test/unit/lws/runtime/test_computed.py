"""lws.runtime.refusals: results are computed once and cached, up to a maximum number."""

from __future__ import annotations

from lws.runtime.refusals import Computed


def test_a_result_is_computed_once_per_state_and_the_oldest_is_evicted() -> None:
    asked: list[tuple[str, int]] = []
    known = Computed[int](2)

    def of(uid: str, state: int = 1) -> int:
        def compute() -> int:
            asked.append((uid, state))
            return len(uid)

        return known.of(uid, state, compute)

    assert [of("a"), of("a"), of("bb"), of("a"), of("ccc"), of("bb"), of("a")] == [1, 1, 2, 1, 3, 2, 1]
    assert asked == [("a", 1), ("bb", 1), ("ccc", 1), ("a", 1)]
    assert (of("a", 2), of("a", 2)) == (1, 1)
    assert asked[4:] == [("a", 2)]
    known.forget("a")
    known.forget("a")
    assert of("a", 2) == 1 and asked[5:] == [("a", 2)]
