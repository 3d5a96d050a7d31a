"""Tests of lws.disaggregatedset.status: roles whose pods find no room are reported with their slice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lws import timing
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import ChildFacts
from lws.disaggregatedset.status import recheck_after, without_nodes
from lws.kube.pods import NodeWait
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated, make_facts

OWNER = make_disaggregated()
SECOND = timedelta(seconds=1)
LONG_AGO = NOW - timing.NODE_WAIT_IS_LONG


def child(role: str, slice_index: int = 0, key: str = "1" * 8, **more: Any) -> ChildFacts:
    return make_facts(OWNER, Identity(slice_index, key, role), 2, **more)


def test_pods_pending_for_long_are_reported_by_slice_and_role() -> None:
    waits = (NodeWait(LONG_AGO),)
    children = [
        child("prefill", 1, waits=waits),
        child("decode", 0, waits=(NodeWait(NOW), *waits)),
        child("decode", 0, "2" * 8, waits=waits),
        child("prefill", 0),
    ]
    assert without_nodes(children, NOW) == (
        "slice 0: role decode: pods wait for nodes",
        "slice 1: role prefill: pods wait for nodes",
    )


def test_gated_pods_wait_for_their_gate_instead_of_nodes() -> None:
    gated = NodeWait(LONG_AGO, gate="example.com/quota")
    children = [child("prefill", waits=(gated, gated)), child("decode", waits=(NodeWait(LONG_AGO), gated))]
    assert without_nodes(children, NOW) == (
        "slice 0: role decode: pods wait for nodes",
        "slice 0: role decode: pods wait for scheduling gate example.com/quota",
        "slice 0: role prefill: pods wait for scheduling gate example.com/quota",
    )


def test_short_and_past_waits_are_not_reported() -> None:
    short, over = NodeWait(LONG_AGO + SECOND), NodeWait(LONG_AGO - SECOND, until=NOW)
    assert without_nodes([child("prefill", waits=(short, over))], NOW) == ()


def test_no_requeue_is_needed_once_all_groups_are_ready() -> None:
    """No event reports that a pod has been waiting for long."""
    assert recheck_after([child("prefill"), child("decode")]) is None
    assert recheck_after([child("prefill"), child("decode", ready=1)]) == 30.0
