"""The membership Lease that several managers hold together: who counts as alive, is excluded, or leaves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lws.runtime.leadership.lease import Candidate, Lease, LeaseTimes
from lws.runtime.leadership.shard_election import MANAGER_ANNOTATION, ShardMembership
from test.unit.fake_time import in_fake_time, now
from test.unit.lease_server import LeaseClient, LeaseServer

TIMES = LeaseTimes(duration=15.0, renew_deadline=10.0, retry_period=2.0)
NAME = "b8b2488c.x-k8s.io"


def membership(server: LeaseServer, who: str, shards: int = 4) -> ShardMembership:
    client: Any = LeaseClient(server)
    return ShardMembership(client, Candidate("lws-system", NAME, who, TIMES, now), shards)


def alone(server: LeaseServer, who: str) -> Lease:
    """Return the Lease of a manager without sharding."""
    client: Any = LeaseClient(server)
    return Lease(client, Candidate("lws-system", NAME, who, TIMES, now))


def roll(server: LeaseServer) -> dict[str, Any]:
    """Return the entry that each manager wrote about itself."""
    annotations = server.leases[NAME]["metadata"]["annotations"]
    entries = [json.loads(text) for key, text in annotations.items() if key.startswith(MANAGER_ANNOTATION)]
    return {entry.pop("who"): entry for entry in entries}


@in_fake_time
async def test_managers_with_the_same_number_of_shards_share_the_lease() -> None:
    server = LeaseServer(NAME)
    one, two = membership(server, "one"), membership(server, "two")
    one.holds, two.holds = frozenset({0, 1}), frozenset({2})
    for member in (one, two, one):
        await member.attempt()
    assert one.is_held() and two.is_held()
    assert one.others() == {"two": {2}} and two.others() == {"one": {0, 1}}
    assert server.holder(NAME) == "4-shards" and server.leases[NAME]["spec"]["leaseTransitions"] == 1
    assert roll(server) == {"one": {"beat": 2, "holds": [0, 1]}, "two": {"beat": 1, "holds": [2]}}


@in_fake_time
async def test_a_silent_member_is_ignored_and_removed_later() -> None:
    server = LeaseServer(NAME)
    one, two = membership(server, "one"), membership(server, "two")
    await two.attempt()
    await one.attempt()
    await asyncio.sleep(6.1)
    await one.attempt()
    assert one.others() == {} and "two" in roll(server)
    await asyncio.sleep(9.0)
    await one.attempt()
    assert list(roll(server)) == ["one"]
    # The manager resumes and counts as alive again; until then it could not be sure of its membership.
    assert not two.is_held()
    await two.attempt()
    await one.attempt()
    assert two.is_held() and list(one.others()) == ["two"]


@pytest.mark.parametrize("shared_first", [True, False])
@in_fake_time
async def test_managers_with_another_number_of_shards_wait_for_expiry(shared_first: bool) -> None:
    server = LeaseServer(NAME)
    shared, third = membership(server, "one"), membership(server, "two", shards=8)
    sole = alone(server, "three")
    first, *later = (shared, third, sole) if shared_first else (sole, shared, third)
    await first.attempt()
    for _ in range(8):
        assert not any(member.is_held() for member in later)
        for member in later:
            await member.attempt()
        await asyncio.sleep(2.0)
    assert not first.is_held() and not any(member.is_held() for member in later)
    for member in later:
        await member.attempt()
    assert [member.is_held() for member in later] == [True, False]


@in_fake_time
async def test_the_last_manager_releases_the_lease() -> None:
    server = LeaseServer(NAME)
    one, two, sole = membership(server, "one"), membership(server, "two"), alone(server, "three")
    await one.attempt()
    await two.attempt()
    await one.release()
    assert not one.is_held() and two.is_held()
    assert server.holder(NAME) == "4-shards" and list(roll(server)) == ["two"]
    await two.release()
    assert not two.is_held() and server.holder(NAME) == ""
    assert roll(server) == {}
    await sole.attempt()
    assert sole.is_held()


@in_fake_time
async def test_the_last_manager_does_not_release_while_another_joins() -> None:
    server = LeaseServer(NAME)
    one, two = membership(server, "one"), membership(server, "two")
    await one.attempt()
    client: Any = one._cluster
    client.delay = lambda: 0.5
    leaving = asyncio.ensure_future(one.release())
    # The leaving manager has read that it is alone, and has not written yet that it leaves.
    await asyncio.sleep(1.2)
    await two.attempt()
    await leaving
    assert server.holder(NAME) == "4-shards" and list(roll(server)) == ["two"] and two.is_held()


@pytest.mark.parametrize(
    "garbage",
    [
        "{",
        "[]",
        pytest.param("[" * 100_000, id="deeply nested"),
        '{"who": 2, "beat": 1, "holds": []}',
        '{"who": "two", "beat": 1, "holds": [4]}',
        '{"who": "two", "beat": 1, "holds": 4}',
    ],
)
@in_fake_time
async def test_an_unreadable_entry_is_removed(garbage: str) -> None:
    server = LeaseServer(NAME)
    member = membership(server, "one")
    await member.attempt()
    server.leases[NAME]["metadata"]["annotations"][f"{MANAGER_ANNOTATION}two"] = garbage
    await member.attempt()
    assert member.is_held() and member.others() == {}
    await asyncio.sleep(15.1)
    await member.attempt()
    assert member.is_held() and len(server.leases[NAME]["metadata"]["annotations"]) == 1 == len(roll(server))


@in_fake_time
async def test_members_rejoin_after_all_annotations_were_removed() -> None:
    server = LeaseServer(NAME)
    one, two = membership(server, "one"), membership(server, "two")
    for member in (one, two):
        await member.attempt()
    del server.leases[NAME]["metadata"]["annotations"]
    for member in (one, two, one):
        await member.attempt()
    assert one.is_held() and two.is_held()
    assert list(one.others()) == ["two"] and list(two.others()) == ["one"]


@in_fake_time
async def test_constant_writes_of_others_do_not_delay_a_renewal() -> None:
    server = LeaseServer(NAME)
    member, others = membership(server, "one"), [membership(server, f"other-{n}") for n in range(8)]
    client: Any = member._cluster
    client.delay = lambda: 1.0
    joining = asyncio.ensure_future(member.attempt())
    while not joining.done():
        for other in others:
            await other.attempt()
        await asyncio.sleep(0.05)
    assert member.is_held() and client.requests == 1 + 1
    await asyncio.gather(member.attempt(), *(other.attempt() for other in others))
    assert client.requests == 3 and len(member.others()) == 8


@in_fake_time
async def test_a_returning_manager_waits_for_managers_with_another_number_of_shards() -> None:
    server = LeaseServer(NAME)
    first, second = membership(server, "one"), membership(server, "two", shards=8)
    await first.attempt()
    await second.attempt()
    await asyncio.sleep(15.1)
    await second.attempt()
    assert second.is_held()
    await first.attempt()
    assert not first.is_held() and server.holder(NAME) == "8-shards" and list(roll(server)) == ["two"]


@in_fake_time
async def test_managers_that_leave_at_the_same_time_release_the_lease() -> None:
    server = LeaseServer(NAME)
    both = [membership(server, "one"), membership(server, "two")]
    for member in [*both, *both]:
        await member.attempt()
        client: Any = member._cluster
        client.delay = lambda: 0.5
    await asyncio.gather(*(member.release() for member in both))
    assert server.holder(NAME) == ""


@in_fake_time
async def test_entries_of_managers_with_another_number_of_shards_are_ignored() -> None:
    server = LeaseServer(NAME)
    former, current = membership(server, "former", shards=8), membership(server, "one")
    former.holds = frozenset({1})
    await former.attempt()
    await current.attempt()
    await asyncio.sleep(15.1)
    await current.attempt()
    assert current.is_held() and current.others() == {} and list(roll(server)) == ["one"]
