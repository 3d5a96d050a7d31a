"""One manager is active for all namespaces. Without leader election, the only manager always is."""

from __future__ import annotations

import asyncio
from typing import Any

from lws.runtime.errors import Unreachable
from lws.runtime.leadership.election import LeaseElection, Unelected, everywhere
from lws.runtime.leadership.lease import Candidate, Lease, LeaseTimes
from test.unit.fake_time import in_fake_time, now
from test.unit.lease_server import LeaseClient, LeaseServer

TIMES = LeaseTimes(duration=15.0, renew_deadline=10.0, retry_period=2.0)


@in_fake_time
async def test_one_lease_covers_all_namespaces() -> None:
    client: Any = LeaseClient(LeaseServer("lws"))
    leading: list[tuple[str, bool]] = []
    lease = Lease(client, Candidate("lws-system", "lws", "one", TIMES, now))
    election = LeaseElection(lease, lambda name, leads: leading.append((name, leads)))
    assert leading == [("lws", False)] and not election.acts_on("a") and not election.may_write("a")
    changes: list[tuple[str, bool]] = []

    def tell(change: str, scope: object) -> None:
        assert scope is everywhere
        # The election's own state must already agree with the call.
        changes.append((change, election.acts_on("a")))

    task = asyncio.ensure_future(
        election.run(lambda scope: tell("gain", scope), lambda scope: tell("loss", scope))
    )
    await asyncio.sleep(0.1)
    assert election.acts_on("a") and election.may_write("b") and client.server.holder("lws") == "one"
    client.trouble = Unreachable("cut off")
    await asyncio.sleep(10.0)
    assert not election.may_write("a")
    await asyncio.sleep(5.0)
    assert changes == [("gain", True), ("loss", False)] and leading[1:] == [("lws", True), ("lws", False)]
    client.trouble = None
    await asyncio.sleep(3.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await election.release()
    assert client.server.holder("lws") == "" and not election.may_write("a")


@in_fake_time
async def test_without_election_the_manager_always_leads() -> None:
    leading: list[tuple[str, bool]] = []
    gained: list[bool] = []
    election = Unelected("lws", lambda name, leads: leading.append((name, leads)))
    task = asyncio.ensure_future(election.run(lambda scope: gained.append(scope("a")), lambda scope: None))
    await asyncio.sleep(0.0)
    await asyncio.sleep(100.0)
    assert gained == [True] and leading == [("lws", True)] and not task.done()
    assert election.acts_on("a") and election.may_write("b")
    await election.release()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
