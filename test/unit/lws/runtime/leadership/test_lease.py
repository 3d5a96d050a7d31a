"""One Lease, candidates with separate clocks, and an API server that is slow, unreachable or inconsistent.

Most candidates share a fake clock. Candidates that the test stops (SIGSTOP) have an event loop each, and a
world that advances them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from lws.runtime.errors import AlreadyExists, ApiError, ClusterError, Conflict, NotFound, Unreachable
from lws.runtime.informer import Rollback
from lws.runtime.leadership.lease import Candidate, Lease, LeaseTimes, released
from test.unit.fake_time import in_fake_time, now
from test.unit.lease_server import NOW
from test.unit.seeds import for_each_seed

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TIMES = LeaseTimes(duration=15.0, renew_deadline=10.0, retry_period=2.0)


class _Server:
    """An API server with one Lease, which a former holder has released, and optimistic concurrency."""

    def __init__(self) -> None:
        self.version = 100
        self.lease: dict[str, Any] | None = released(
            {"metadata": {"name": "b8b2488c.x-k8s.io", "resourceVersion": "100"}}, NOW
        )

    def get(self) -> dict[str, Any]:
        if self.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        return _copied(self.lease)

    def create(self, lease: dict[str, Any]) -> None:
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "somebody was faster")
        self.put(lease)

    def replace(self, lease: dict[str, Any]) -> None:
        if self.lease is None or lease["metadata"].get("resourceVersion") != str(self.version):
            raise Conflict(409, "Conflict", "somebody was faster")
        self.put(lease)

    def edit(self, **spec: Any) -> None:
        """Write these fields of the spec as another client."""
        self.put({**self.get(), "spec": {**self.spec, **spec}})

    def put(self, lease: dict[str, Any]) -> None:
        """Store a Lease as another client."""
        self.version += 1
        self.lease = _copied(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


def _copied(lease: dict[str, Any]) -> dict[str, Any]:
    return {**lease, "metadata": {**lease["metadata"]}, "spec": {**lease["spec"]}}


class _Line:
    """One candidate's connection to the server.

    delay: a function that draws the seconds of one direction. trouble: the error that requests raise, if any.
    """

    def __init__(self, server: _Server) -> None:
        self.server = server
        self.delay: Callable[[], float] = lambda: 0.0
        self.trouble: ClusterError | None = None
        self.requests = 0

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=now())

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        assert (kind, namespace, name) == ("Lease", "lws-system", "b8b2488c.x-k8s.io")
        await self._travel()
        lease = self.server.get()
        await self._travel()
        return lease

    async def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        await self._travel()
        self.server.create(lease)
        stored = self.server.get()
        await self._travel()
        return stored

    async def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        await self._travel()
        self.server.replace(lease)
        stored = self.server.get()
        await self._travel()
        return stored

    async def _travel(self) -> None:
        self.requests += 1
        await asyncio.sleep(self.delay())
        if self.trouble is not None:
            raise self.trouble


class _Candidate:
    """A Lease on its connection, and what it reported to the manager."""

    def __init__(
        self,
        server: _Server,
        identity: str,
        clock: Callable[[], float] = now,
        times: LeaseTimes = TIMES,
    ) -> None:
        self.line = _Line(server)
        cluster: Any = self.line
        self.rollback = Rollback()
        who = Candidate("lws-system", "b8b2488c.x-k8s.io", identity, times, clock, self.rollback)
        self.lease = Lease(cluster, who)
        self.changes: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(
            self.lease.run(lambda: self.changes.append("gain"), lambda: self.changes.append("loss"))
        )

    async def stop(self) -> None:
        assert self.task is not None and not self.task.done()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        assert self.task.cancelled()


@in_fake_time
async def test_a_missing_lease_is_acquired_after_its_duration() -> None:
    """Somebody may have deleted it, and its holder may not know that yet."""
    candidate = _Candidate(_Server(), "one")
    candidate.line.server.lease = None
    began = now()
    candidate.start()
    while not candidate.lease.is_held():
        await asyncio.sleep(0.1)
    assert TIMES.duration < now() - began < TIMES.duration + 1.2 * TIMES.retry_period + 0.2
    assert candidate.changes == ["gain"]
    lease = candidate.line.server.lease
    assert lease is not None
    assert lease["apiVersion"] == "coordination.k8s.io/v1" and lease["kind"] == "Lease"
    assert lease["metadata"]["name"] == "b8b2488c.x-k8s.io" and lease["metadata"]["namespace"] == "lws-system"
    spec = lease["spec"]
    assert (
        spec["holderIdentity"] == "one"
        and spec["leaseDurationSeconds"] == 15
        and spec["leaseTransitions"] == 0
    )
    assert MICRO_TIME.fullmatch(spec["acquireTime"]) and spec["acquireTime"] == spec["renewTime"]
    await candidate.stop()


@in_fake_time
async def test_renewals() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    candidate.line.server.edit(renewTime="before", acquireTime="before")
    version = candidate.line.server.version
    await asyncio.sleep(60.0)
    assert candidate.lease.is_held() and candidate.changes == ["gain"]
    spec = candidate.line.server.spec
    assert spec["acquireTime"] == "before" != spec["renewTime"] and spec["leaseTransitions"] == 1
    assert candidate.line.server.version - version == 30, "once per retry period"
    await candidate.stop()


@in_fake_time
async def test_a_renewal_is_one_request() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    before, version = candidate.line.requests, candidate.line.server.version
    await asyncio.sleep(20.0)
    # Every request is counted in both directions.
    assert candidate.line.requests - before == 2 * (candidate.line.server.version - version) == 20
    await candidate.stop()


@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0])
@in_fake_time
async def test_slow_answers_do_not_lose_the_lease(seconds: float) -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    candidate.line.delay = lambda: seconds / 2
    for _ in range(1200):
        await asyncio.sleep(0.1)
        assert candidate.lease.is_held()
    assert candidate.changes == ["gain"]
    await candidate.stop()


@in_fake_time
async def test_slow_responses_do_not_prevent_acquiring_and_releasing() -> None:
    """A read and a write together may take longer than the timeout of one request."""
    candidate = _Candidate(_Server(), "one")
    candidate.line.delay = lambda: 2.0
    candidate.start()
    await asyncio.sleep(8.5)
    assert candidate.lease.is_held() and candidate.changes == ["gain"]
    await asyncio.sleep(3.0)
    await candidate.stop()
    await candidate.lease.release()
    await asyncio.sleep(5.0)
    assert candidate.line.server.spec["holderIdentity"] == ""


@in_fake_time
async def test_foreign_fields_are_kept() -> None:
    server = _Server()
    server.put(
        {"metadata": {"labels": {"a": "b"}}, "spec": {**server.spec, "strategy": "OldestEmulationVersion"}}
    )
    candidate = _Candidate(server, "one")
    candidate.start()
    await asyncio.sleep(0.1)
    assert server.spec["strategy"] == "OldestEmulationVersion" and server.spec["holderIdentity"] == "one"
    assert server.get()["metadata"]["labels"] == {"a": "b"}
    await candidate.stop()


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [(15.0, 15), (1.0, 1), (1.4, 2), (0.3, 1), (15.2, 16)],
    ids=lambda value: str(value),
)
@in_fake_time
async def test_the_stored_duration_is_never_shorter_than_configured(duration: float, seconds: int) -> None:
    times = LeaseTimes(duration=duration, renew_deadline=duration * 0.9, retry_period=0.1)
    candidate = _Candidate(_Server(), "one", times=times)
    candidate.start()
    await asyncio.sleep(0.05)
    assert candidate.line.server.spec["leaseDurationSeconds"] == seconds
    await candidate.stop()


def _held_by_another(duration: int | None = 15) -> _Server:
    server = _Server()
    spec = {"holderIdentity": "other", "renewTime": "2001-01-01T00:00:00.000000Z", "leaseTransitions": 3}
    server.put(
        {"metadata": {"name": "b"}, "spec": spec | ({"leaseDurationSeconds": duration} if duration else {})}
    )
    return server


@pytest.mark.parametrize(("duration", "expires"), [(15, 15.0), (40, 40.0), (None, 15.0)])
@in_fake_time
async def test_a_silent_holder_expires_by_our_own_clock(duration: int | None, expires: float) -> None:
    """The last renewal is decades ago by the wall clock. That does not count, because clocks differ."""
    server = _held_by_another(duration)
    candidate = _Candidate(server, "one")
    candidate.start()
    await asyncio.sleep(expires)
    assert not candidate.lease.is_held() and candidate.changes == []
    await asyncio.sleep(3.0)
    assert candidate.lease.is_held() and candidate.changes == ["gain"]
    assert server.spec["leaseTransitions"] == 4 and server.spec["holderIdentity"] == "one"
    await candidate.stop()


@pytest.mark.parametrize("field", ["renewTime", "leaseTransitions", "holderIdentity"])
@in_fake_time
async def test_a_renewing_holder_is_waited_for(field: str) -> None:
    server = _held_by_another()
    candidate = _Candidate(server, "one")
    candidate.start()
    for beat in range(10):
        await asyncio.sleep(10.0)
        server.spec[field] = beat + 10 if field == "leaseTransitions" else f"beat {beat}"
    assert not candidate.lease.is_held() and candidate.changes == []
    await candidate.stop()


@in_fake_time
async def test_expiry_is_measured_from_the_receipt_of_a_slow_answer() -> None:
    server, times = _Server(), LeaseTimes(duration=15.0, renew_deadline=14.0, retry_period=2.0)
    one, two = _Candidate(server, "one", times=times), _Candidate(server, "two", times=times)
    one.start()
    await asyncio.sleep(0.1)
    delays = iter([6.0])
    two.line.delay = lambda: next(delays, 0.0)
    two.start()
    await asyncio.sleep(6.4)
    one.line.trouble = Unreachable("connection refused")
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert not (one.lease.is_held() and two.lease.is_held())
    assert two.lease.is_held()
    await one.stop()
    await two.stop()


@pytest.mark.parametrize("holder", ["", None], ids=["empty", "none"])
@in_fake_time
async def test_a_released_lease_is_taken_at_once(holder: str | None) -> None:
    server = _held_by_another()
    server.spec.update(holderIdentity=holder, leaseDurationSeconds=1)
    candidate = _Candidate(server, "one")
    candidate.start()
    await asyncio.sleep(0.1)
    assert candidate.lease.is_held()
    await candidate.stop()


@in_fake_time
async def test_our_lease_is_renewed_after_a_lost_answer() -> None:
    server = _held_by_another()
    server.spec["holderIdentity"] = "one"
    candidate = _Candidate(server, "one")
    candidate.start()
    await asyncio.sleep(0.1)
    assert candidate.lease.is_held() and server.spec["leaseTransitions"] == 3
    await candidate.stop()


@in_fake_time
async def test_the_lease_is_held_exactly_until_the_renew_deadline() -> None:
    """Only the clock decides, so a blocked event loop makes no difference."""
    seconds = 100.0
    candidate = _Candidate(_Server(), "one", clock=lambda: seconds)
    candidate.start()
    await asyncio.sleep(0.1)
    await candidate.stop()
    seconds = 109.999
    assert candidate.lease.is_held()
    seconds = 110.0
    assert not candidate.lease.is_held()


@in_fake_time
async def test_a_renewal_counts_from_before_it_was_sent() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.line.delay = lambda: 1.0
    began = now()
    candidate.start()
    await asyncio.sleep(4.5)
    await candidate.stop()
    assert candidate.lease.is_held()
    # The read took the first two seconds.
    await asyncio.sleep(began + 11.999 - now())
    assert candidate.lease.is_held()
    await asyncio.sleep(0.002)
    assert not candidate.lease.is_held()


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Unreachable("connection refused"), id="unreachable"),
        pytest.param(ApiError(500, "InternalError", "a bad day"), id="500"),
        pytest.param(Conflict(409, "Conflict", "somebody was faster"), id="conflict"),
    ],
)
@in_fake_time
async def test_short_outages_do_not_lose_the_lease(trouble: ClusterError) -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(1.0)
    candidate.line.trouble = trouble
    await asyncio.sleep(6.0)
    candidate.line.trouble = None
    await asyncio.sleep(30.0)
    assert candidate.lease.is_held() and candidate.changes == ["gain"]
    await candidate.stop()


@pytest.mark.parametrize("hangs", [False, True], ids=["refused", "no-answer"])
@in_fake_time
async def test_a_long_outage_loses_the_lease_and_the_candidate_retries(hangs: bool) -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(1.0)
    if hangs:
        candidate.line.delay = lambda: 1000.0
    else:
        candidate.line.trouble = Unreachable("connection refused")
    await asyncio.sleep(10.0)
    assert not candidate.lease.is_held()
    await asyncio.sleep(10.0)
    assert candidate.changes == ["gain", "loss"]
    candidate.line.trouble, candidate.line.delay = None, lambda: 0.0
    await asyncio.sleep(8.0)
    assert candidate.lease.is_held() and candidate.changes == ["gain", "loss", "gain"]
    await candidate.stop()


@in_fake_time
async def test_one_missing_response_does_not_lose_the_lease() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(1.0)
    delays = iter([1000.0])
    candidate.line.delay = lambda: next(delays, 0.0)
    for _ in range(300):
        await asyncio.sleep(0.1)
        assert candidate.lease.is_held()
    assert candidate.changes == ["gain"]
    await candidate.stop()


@in_fake_time
async def test_an_unnoticed_lapse_is_reported_as_loss_and_gain() -> None:
    """Writes were blocked meanwhile, so the manager must check everything again."""
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    candidate.line.trouble = Unreachable("connection refused")
    await asyncio.sleep(8.5)
    assert candidate.lease.is_held()
    # The next attempt begins before the deadline has been noticed, and succeeds after it.
    candidate.line.trouble, candidate.line.delay = None, lambda: 1.0
    await asyncio.sleep(2.0)
    assert not candidate.lease.is_held() and candidate.changes == ["gain"]
    await asyncio.sleep(5.0)
    assert candidate.lease.is_held() and candidate.changes == ["gain", "loss", "gain"]
    await candidate.stop()


@in_fake_time
async def test_another_manager_acquired_the_lease() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(1.0)
    candidate.line.server.edit(holderIdentity="other")
    await asyncio.sleep(2.0)
    assert not candidate.lease.is_held(), "not only after the deadline"
    assert candidate.changes == ["gain", "loss"]
    await candidate.stop()


@in_fake_time
async def test_only_one_of_two_concurrent_candidates_acquires_the_lease() -> None:
    server = _held_by_another()
    server.spec["holderIdentity"] = ""
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.line.delay = two.line.delay = lambda: 0.2
    one.start()
    two.start()
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert not (one.lease.is_held() and two.lease.is_held())
    assert sorted([one.changes, two.changes]) == [[], ["gain"]]
    await one.stop()
    await two.stop()


@in_fake_time
async def test_release() -> None:
    server = _Server()
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.start()
    await asyncio.sleep(0.1)
    two.start()
    await asyncio.sleep(5.0)
    await one.stop()
    await one.lease.release()
    assert not one.lease.is_held()
    assert server.spec["holderIdentity"] == "" and server.spec["leaseDurationSeconds"] == 1
    await asyncio.sleep(3.0)
    assert two.lease.is_held(), "a released lease is acquired before its expiry"
    assert server.spec["leaseTransitions"] == 2 and server.spec["leaseDurationSeconds"] == 15
    await two.stop()


@in_fake_time
async def test_only_a_holder_releases() -> None:
    candidate = _Candidate(_Server(), "one")
    await candidate.lease.release()
    assert candidate.line.requests == 0


@in_fake_time
async def test_a_lease_that_another_manager_holds_is_not_released() -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    await candidate.stop()
    candidate.line.server.edit(holderIdentity="other")
    await candidate.lease.release()
    assert candidate.line.server.spec["holderIdentity"] == "other" and not candidate.lease.is_held()


@pytest.mark.parametrize("hangs", [False, True], ids=["refused", "no-answer"])
@in_fake_time
async def test_a_failed_release_does_not_block(hangs: bool, caplog: pytest.LogCaptureFixture) -> None:
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    await candidate.stop()
    candidate.line.trouble = Unreachable("connection refused")
    if hangs:
        candidate.line.delay = lambda: 1000.0
    began = now()
    await candidate.lease.release()
    assert now() - began <= 5.0 and not candidate.lease.is_held()
    assert "not released" in caplog.text


@pytest.mark.parametrize(
    ("is_new", "arrives"),
    [
        pytest.param(True, 0.1, id="created before the release reads"),
        pytest.param(False, 0.1, id="written before the release reads"),
        pytest.param(False, 0.35, id="written after the release has read"),
    ],
)
@in_fake_time
async def test_a_cancelled_acquisition_is_released(is_new: bool, arrives: float) -> None:
    """The write is stored nevertheless, and other candidates must not wait for a holder that is gone."""
    server = _Server()
    if is_new:
        server.lease = None
    candidate, is_sent = _Candidate(server, "one"), asyncio.Event()
    write = candidate.line.server.create if is_new else candidate.line.server.replace

    def arrive(lease: dict[str, Any]) -> None:
        with contextlib.suppress(Conflict):
            write(lease)

    async def carried_all_the_same(lease: dict[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(arrives, arrive, lease)
        is_sent.set()
        return await asyncio.Future()

    candidate.line.create = candidate.line.replace = carried_all_the_same  # type: ignore[method-assign]
    candidate.start()
    await is_sent.wait()
    await asyncio.sleep(0.05)
    await candidate.stop()
    del candidate.line.create, candidate.line.replace
    candidate.line.delay = lambda: 0.1
    await candidate.lease.release()
    await asyncio.sleep(1.0)
    assert server.spec["holderIdentity"] == "" and server.spec["leaseDurationSeconds"] == 1


@in_fake_time
async def test_the_next_release_completes_a_cancelled_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    await candidate.stop()
    candidate.line.delay = lambda: 1.0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(candidate.lease.release(), 0.5)
    assert not candidate.lease.is_held() and "released" not in caplog.text
    await candidate.lease.release()
    assert candidate.line.server.spec["holderIdentity"] == "" and "released" in caplog.text


def _deleted(server: _Server) -> None:
    server.lease = None


def _emptied(server: _Server) -> None:
    server.edit(holderIdentity="")


@pytest.mark.parametrize("disappear", [_deleted, _emptied], ids=["deleted", "holder removed by an edit"])
@pytest.mark.parametrize("seconds", [0.05, 1.0, 1.95])
@in_fake_time
async def test_never_two_holders_if_a_manager_starts_while_the_lease_is_gone(
    disappear: Callable[[_Server], None], seconds: float
) -> None:
    server = _Server()
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.start()
    await asyncio.sleep(8.0 + seconds)
    disappear(server)
    two.start()
    for _ in range(400):
        await asyncio.sleep(0.05)
        assert one.lease.is_held() and not two.lease.is_held()
    assert server.spec["holderIdentity"] == "one"
    await one.stop()
    await two.stop()


@pytest.mark.parametrize("disappear", [_deleted, _emptied], ids=["deleted", "holder removed by an edit"])
@pytest.mark.parametrize("cut", [False, True], ids=["holder is well", "holder is cut off"])
@in_fake_time
async def test_never_two_holders_if_another_client_edits_the_lease(
    disappear: Callable[[_Server], None], cut: bool
) -> None:
    server = _Server()
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.start()
    await asyncio.sleep(0.1)
    two.start()
    for instant in (0.3, 0.8, 1.1, 1.6, 1.9):
        await asyncio.sleep(10.0 + instant)
        holder, other = (one, two) if one.lease.is_held() else (two, one)
        if cut:
            holder.line.trouble = Unreachable("connection refused")
        disappear(server)
        began = now()
        while now() - began < 25.0:
            await asyncio.sleep(0.05)
            assert not (one.lease.is_held() and two.lease.is_held())
            assert not other.lease.is_held() or now() - began > TIMES.renew_deadline
        assert other.lease.is_held() is cut and holder.lease.is_held() is not cut
        holder.line.trouble = None
    await one.stop()
    await two.stop()


@in_fake_time
async def test_time_without_reads_does_not_count_as_silence_of_the_holder() -> None:
    """A manager of shards reads the Leases of others when it starts, and then no more."""
    server = _Server()
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.start()
    await asyncio.sleep(0.1)
    await two.lease.observe()
    await asyncio.sleep(3600.0)
    _deleted(server)
    await two.lease.attempt()
    assert one.lease.is_held() and not two.lease.is_held()
    await one.stop()
    began = now()
    while not two.lease.is_held():
        await asyncio.sleep(TIMES.retry_period)
        await two.lease.attempt()
    assert TIMES.duration < now() - began < TIMES.duration + 2 * TIMES.retry_period
    # A Lease that was absent may have existed since.
    _deleted(server)
    await one.lease.attempt()
    await asyncio.sleep(3600.0)
    await one.lease.attempt()
    assert not one.lease.is_held()


def test_a_suspended_machine_holds_nothing_when_it_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a Linux machine is suspended, CLOCK_MONOTONIC stops and CLOCK_BOOTTIME does not."""
    suspended = 0.0

    def clock_gettime(clock: int) -> float:
        return clocks[clock]()

    clocks = {time.CLOCK_MONOTONIC: lambda: 7.0, time.CLOCK_BOOTTIME: lambda: 7.0 + suspended}
    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    candidate = _Candidate(_Server(), "one", clock=Candidate("ns", "name", "one", TIMES).clock)
    asyncio.run(candidate.lease.attempt())
    assert candidate.lease.is_held()
    suspended = 60.0
    assert not candidate.lease.is_held()


@in_fake_time
async def test_deadline_of_writes() -> None:
    candidate = _Candidate(_Server(), "one")
    assert candidate.lease.time_left == 0.0
    candidate.start()
    await asyncio.sleep(0.1)
    await candidate.stop()
    renewed_at = now() - 0.1
    while candidate.lease.is_held():
        assert now() + candidate.lease.time_left == pytest.approx(renewed_at + 14.0)
        await asyncio.sleep(0.5)
    assert candidate.lease.time_left == 0.0


@in_fake_time
async def test_log_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    candidate = _Candidate(_Server(), "one")
    candidate.start()
    await asyncio.sleep(0.1)
    candidate.line.trouble = Unreachable("connection refused")
    await asyncio.sleep(15.0)
    await candidate.stop()
    assert "lease b8b2488c.x-k8s.io: held by this manager (one)" in caplog.messages
    assert "lease b8b2488c.x-k8s.io: connection refused" in caplog.messages
    assert "lease b8b2488c.x-k8s.io: lost: stopped reconciling, trying to reacquire" in caplog.messages


class _Process(_Candidate):
    """A candidate with its own event loop and clock, which can be stopped at any point (SIGSTOP)."""

    def __init__(self, world: _World, identity: str, offset: float) -> None:
        self.world = world
        self.is_stopped = False
        self.loop = _ProcessLoop(lambda: world.now + offset)
        super().__init__(world.server, identity, self.loop.time, world.times)
        self.loop.call_soon(self.start)

    def run(self) -> None:
        """Run everything that is due."""
        while not self.is_stopped and self.loop.due_at() <= self.loop.time() + 1e-9:
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def end(self) -> None:
        self.loop.run_until_complete(self.stop())
        self.loop.close()


class _ProcessLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.time = clock  # type: ignore[method-assign]

    def due_at(self) -> float:
        """Return the time of the next callback, or infinity if there is none."""
        if self._ready:  # type: ignore[attr-defined]
            return float("-inf")
        timers = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers), default=float("inf"))


class _World:
    """Time, one server and several processes."""

    def __init__(self, times: LeaseTimes, draw: random.Random) -> None:
        self.now = 0.0
        self.times = times
        self.draw = draw
        self.server = _Server()
        self.processes = [
            _Process(self, name, offset) for name, offset in (("a", 5000.0), ("b", 10.0), ("c", 0.5))
        ]

    def run(self, seconds: float) -> None:
        """Advance the time from one event of any process to the next."""
        until = self.now + seconds
        while True:
            for process in self.processes:
                process.run()
            holders = [process.lease.identity for process in self.processes if process.lease.is_held()]
            assert len(holders) <= 1, f"{holders} hold the lease at {self.now}"
            due = [
                self.now + process.loop.due_at() - process.loop.time()
                for process in self.processes
                if not process.is_stopped
            ]
            following = min(due, default=until)
            if not due or following > until:
                self.now = until
                return
            self.now = max(following, self.now)

    def disturb(self) -> None:
        """Cause a random fault in a random process."""
        process = self.draw.choice(self.processes)
        troubles = ["stop", "go", "go", "cut", "slow", "hang", "fine", "fine", "delete", "empty"]
        match self.draw.choice(troubles):
            case "delete":
                self.server.lease = None
            case "empty" if self.server.lease is not None:
                self.server.edit(holderIdentity="")
            case "stop":
                process.is_stopped = True
            case "go":
                process.is_stopped = False
            case "cut":
                process.line.trouble = Unreachable("connection refused")
            case "slow":
                process.line.delay = lambda: self.draw.uniform(0.0, 0.3) * self.times.renew_deadline
            case "hang":
                process.line.delay = lambda: self.draw.choice([0.0, 0.0, 1000.0])
            case "fine":
                process.line.trouble, process.line.delay = None, lambda: self.draw.uniform(0.0, 0.1)

    def calm_down(self) -> None:
        for process in self.processes:
            process.is_stopped, process.line.trouble = False, None
            process.line.delay = lambda: 0.01


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(TIMES, id="defaults"),
        pytest.param(LeaseTimes(15.0, 14.0, 2.0), id="late-deadline"),
        pytest.param(LeaseTimes(1.4, 1.3, 0.3), id="fractions"),
    ],
)
@for_each_seed(5)
def test_never_two_holders(times: LeaseTimes, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr("lws.runtime.leadership.lease.random", draw)
    world = _World(times, draw)
    try:
        for _ in range(40):
            world.disturb()
            world.run(draw.uniform(0.0, times.duration))
        world.calm_down()
        world.run(3 * times.duration)
        [holder] = [process for process in world.processes if process.lease.is_held()]
        assert holder.lease.identity == world.server.spec["holderIdentity"]
        for process in world.processes:
            # Gains and losses alternate, and the last one matches the current state.
            expected = ["gain", "loss"] * len(process.changes)
            assert process.changes == expected[: len(process.changes)]
            assert len(process.changes) % 2 == (process is holder)
        assert sum(process.changes.count("gain") for process in world.processes) > 1, "nothing happened"
    finally:
        for process in world.processes:
            process.end()


def test_a_stopped_leader_does_not_act_when_it_resumes() -> None:
    """SIGSTOP for a minute, then SIGCONT: the old leader does nothing before it checks its clock."""
    world = _World(TIMES, random.Random(0))
    try:
        world.run(1.0)
        [former] = [process for process in world.processes if process.lease.is_held()]
        former.is_stopped = True
        world.run(60.0)
        [acting] = [process for process in world.processes if process.lease.is_held()]
        assert acting is not former and former.changes == ["gain"]
        former.is_stopped = False
        assert not former.lease.is_held()
        world.run(5.0)
        assert former.changes == ["gain", "loss"] and acting.lease.is_held()
    finally:
        for process in world.processes:
            process.end()


@pytest.mark.parametrize("bump", [0, 1000], ids=["restored", "restored and followed by many writes"])
@in_fake_time
async def test_an_older_lease_means_that_etcd_was_restored(bump: int) -> None:
    server = _Server()
    one, two = _Candidate(server, "one"), _Candidate(server, "two")
    one.start()
    await asyncio.sleep(1.0)
    two.start()
    await asyncio.sleep(10.0)
    backup, version = server.get(), server.version
    await asyncio.sleep(60.0)
    assert not one.rollback.is_rolled_back and not two.rollback.is_rolled_back
    server.lease, server.version = backup, version + bump
    await asyncio.sleep(3.0)
    assert one.rollback.is_rolled_back
    assert server.spec == backup["spec"], "no manager has written the lease"
    await one.stop()
    await two.stop()


@in_fake_time
async def test_a_missing_lease_means_that_etcd_was_restored() -> None:
    server = _Server()
    candidate = _Candidate(server, "one")
    candidate.start()
    await asyncio.sleep(60.0)
    server.lease, server.version = None, 100
    await asyncio.sleep(3.0)
    assert candidate.rollback.is_rolled_back
    await candidate.stop()
