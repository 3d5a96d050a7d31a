"""Run one manager, or one for each shard, and measure each of these processes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lws.runtime.leadership.shard_election import shard_of
from test.bench.scrape import Scrape
from test.bench.subject import Subject, deployed
from test.harness.waiting import eventually
from test.integration.chaos.endpoint import Endpoint
from tools.deployment import ManagerProcess
from tools.localcluster import LocalCluster

_HOLDS = "leader_election_master_status"
_SHARE_SECONDS = 120.0


class Crew:
    """The managers of a measurement, in the order of their start; each has a separate peak."""

    def __init__(self, managers: list[Subject], endpoint: Endpoint | None) -> None:
        self.managers = managers
        self._endpoint = endpoint
        self.peak = _Peaks(self)

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of all since their starts."""
        return sum(manager.cpu for manager in self.managers)

    def scrape(self) -> Scrape:
        """Return the sums of their metrics."""
        series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for manager in self.managers:
            for key, value in manager.scrape().series.items():
                series[key] = series.get(key, 0.0) + value
        return Scrape(series)

    def server_scrape(self) -> Scrape:
        return self.managers[0].server_scrape()

    def check(self) -> None:
        for manager in self.managers:
            manager.check()

    def restart_first(self) -> float:
        """Restart the first manager; return the seconds until the new process is ready."""
        self.managers[0].stop()
        ready = self.managers[0].start()
        if self._endpoint is not None:
            self._endpoint.managers = _Turns(self.managers[0].deployment.managers[1:])
        self.share_reviews()
        return ready

    def until_shared(self) -> None:
        """Wait until the only manager is active, or each manager holds one shard."""
        if len(self.managers) == 1:
            eventually("it acts", lambda: self.scrape().total(_HOLDS), seconds=_SHARE_SECONDS)
            return
        eventually(
            "each has its share",
            lambda: [len(_shards(manager.scrape())) for manager in self.managers],
            lambda held: held == [1] * len(self.managers),
            seconds=_SHARE_SECONDS,
        )

    def groups_of_each(self, namespaces: list[str], groups: int) -> list[int]:
        """Return the number of groups of each manager. groups: the number in each namespace."""
        count = len(self.managers)
        if count == 1:
            return [groups * len(namespaces)]
        held = [_shards(manager.scrape()) for manager in self.managers]
        return [groups * sum(shard_of(name, count) in shards for name in namespaces) for shards in held]

    def share_reviews(self) -> None:
        """Have the API server call all managers in turn, if there are several."""
        if self._endpoint is not None:
            self.managers[0].deployment.point_webhooks_at(self._endpoint.port)


class _Peaks:
    """The sum of the largest PSS of each manager."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def reset(self) -> None:
        for manager in self._crew.managers:
            manager.peak.reset()

    @property
    def bytes(self) -> int:
        return sum(manager.peak.bytes for manager in self._crew.managers)


class _Turns(list[ManagerProcess]):
    """A list that starts with another manager at each iteration, as a Service distributes connections."""

    def __iter__(self) -> Iterator[ManagerProcess]:
        start = next(self._starts)
        return iter([self[(start + step) % len(self)] for step in range(len(self))])

    def __init__(self, managers: list[ManagerProcess]) -> None:
        super().__init__(managers)
        self._starts = itertools.count()


@contextmanager
def working(cluster: LocalCluster, count: int, profiles: Path) -> Iterator[Crew]:
    """Install the chart and run `count` managers, each with a shard if there are several.

    profiles: the directory in which each leaves `manager-N.PID` and `manager-N.PID.lag` at its end.
    """
    shards = ("--set", f"configuration.sharding.shards={count}") if count > 1 else ()
    deployment = deployed(cluster, "--set", "replicaCount=1", *shards)
    managers = [
        Subject(cluster, deployment, profile=profiles / f"manager-{number}") for number in range(count)
    ]
    with ExitStack() as stack:
        for manager in managers:
            manager.start()
            stack.callback(manager.peak.close)
            stack.callback(manager.stop)
        endpoint = stack.enter_context(Endpoint(_Turns(deployment.managers))) if count > 1 else None
        crew = Crew(managers, endpoint)
        crew.share_reviews()
        crew.until_shared()
        yield crew


def _shards(scrape: Scrape) -> set[int]:
    """Return the shards that a manager holds; none if it is the only one."""
    matches = (re.search(r"-(\d+)$", name) for name, value in scrape.by(_HOLDS, "name").items() if value)
    return {int(match[1]) for match in matches if match is not None}
