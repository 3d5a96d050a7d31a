"""lws.cluster.write.computed: what was computed once is looked up, as long as there is room for it."""

from __future__ import annotations

from lws.cluster.write.computed import Computed


def test_an_answer_is_computed_once_and_the_oldest_goes() -> None:
    asked: list[str] = []
    known = Computed[str, int](2)

    def of(key: str) -> int:
        def compute() -> int:
            asked.append(key)
            return len(key)

        return known.of(key, compute)

    assert [of("a"), of("a"), of("bb"), of("a"), of("ccc"), of("bb"), of("a")] == [1, 1, 2, 1, 3, 2, 1]
    assert asked == ["a", "bb", "ccc", "a"]
