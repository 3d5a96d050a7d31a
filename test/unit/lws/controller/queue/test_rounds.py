"""One piece of work in each round of the event loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from lws.controller.queue.rounds import Rounds


class _Counter:
    """Counts rounds of the loop."""

    def __init__(self) -> None:
        self.round = 0
        self._count()

    def _count(self) -> None:
        self.round += 1
        self.next = asyncio.get_running_loop().call_soon(self._count)


async def test_one_each_round_in_the_order_of_their_coming() -> None:
    rounds, counter = Rounds(), _Counter()
    began: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        await rounds.turn()
        began.append((number, counter.round))

    await asyncio.gather(*map(work, range(20)))
    counter.next.cancel()
    assert [number for number, _ in began] == list(range(20))
    assert all(later - earlier == 1 for (_, earlier), (_, later) in pairwise(began)), began


async def test_who_gave_up_costs_the_others_no_round() -> None:
    rounds, counter = Rounds(), _Counter()
    began: list[int] = []

    async def work() -> None:
        await rounds.turn()
        began.append(counter.round)

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    await asyncio.wait(tasks)
    counter.next.cancel()
    first, last = began
    assert last - first == 1


async def test_it_goes_on_after_it_was_empty() -> None:
    rounds, counter = Rounds(), _Counter()
    began: list[int] = []
    for _ in range(3):
        await asyncio.wait_for(rounds.turn(), 5)
        began.append(counter.round)
    counter.next.cancel()
    assert all(later > earlier for earlier, later in pairwise(began)), began
