"""lws.runtime.refusals: results are computed once and cached, up to a maximum number."""

from __future__ import annotations

from lws.runtime.refusals import Computed


def test_a_result_is_computed_once_per_state_and_the_oldest_is_evicted() -> None:
    computed: list[tuple[str, int]] = []
    cache = Computed[int](2)

    def of(uid: str, state: int = 1) -> int:
        def compute() -> int:
            computed.append((uid, state))
            return len(uid)

        return cache.of(uid, state, compute)

    assert [of("a"), of("a"), of("bb"), of("a"), of("ccc"), of("bb"), of("a")] == [1, 1, 2, 1, 3, 2, 1]
    assert computed == [("a", 1), ("bb", 1), ("ccc", 1), ("a", 1)]
    assert (of("a", 2), of("a", 2)) == (1, 1)
    assert computed[4:] == [("a", 2)]
    cache.forget("a")
    cache.forget("a")
    assert of("a", 2) == 1 and computed[5:] == [("a", 2)]
