"""A consistent read that is older than an earlier one reveals an etcd restore."""

from __future__ import annotations

import asyncio

import pytest

from lws.runtime.informer import Rollback, RolledBack


@pytest.mark.parametrize(
    ("version", "newest"),
    [
        pytest.param("100", 99, id="newer"),
        pytest.param("100", 100, id="same version"),
        pytest.param("100", 0, id="first read"),
        pytest.param("", 100, id="no version"),
        pytest.param("v7", 100, id="not a number"),
    ],
)
async def test_reads_of_the_same_or_a_newer_version(version: str, newest: int) -> None:
    rollback = Rollback()
    rollback.check("pods", version, newest)
    assert not rollback.is_rolled_back


async def test_a_consistent_read_of_an_older_version() -> None:
    rollback = Rollback()
    waiting = asyncio.ensure_future(rollback.wait())
    with pytest.raises(RolledBack, match="pods: the API server shows resourceVersion 99 after 100: etcd was"):
        rollback.check("pods", "99", 100)
    assert rollback.is_rolled_back
    with pytest.raises(RolledBack, match="restored from a backup"):
        await waiting
    rollback.check("pods", "101", 100)
    assert rollback.is_rolled_back, "earlier observations do not become valid again"
