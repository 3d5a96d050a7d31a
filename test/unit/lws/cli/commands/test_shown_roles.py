"""lws.cli.commands.status: the printed status of a DisaggregatedSet.

If there is little room, waiting roles come first.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lws.cli.commands.status import progress_line, status_blocks
from lws.cli.screen import plain
from lws.cli.session import Session
from lws.cli.states import report_on_roles, snapshot_of
from lws.cli.steps_ahead import steps_ahead
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from test.unit.builders import NOW
from test.unit.disaggregated import make_child, make_disaggregated, make_role

REST = steps_ahead(DisaggregatedSnapshot(make_disaggregated(slices=3), NOW)).end


def test_a_settled_set() -> None:
    report = report_on_roles(REST)
    lines = list(plain(status_blocks(report)))
    assert lines[-1] == "settled" and lines[1].endswith(": 9 of 9")
    assert progress_line(report).text == "9 of 9 groups are updated and ready: settled"
    assert len([line for line in lines if line[:1].isdigit()]) == 6


def test_waiting_groups_come_first_in_a_truncated_list() -> None:
    last = REST.children[-1]
    broken = replace(last, ready=0, is_settled=False, broken_on_top=last.desired)
    report = report_on_roles(replace(REST, children=(*REST.children[:-1], broken)))
    assert not report.is_settled
    lines = list(plain(status_blocks(report, most=2)))
    rows = [line for line in lines if line[:1].isdigit()]
    assert len(rows) == 2 and f"{broken.desired} of its groups are not ready" in rows[-1]
    assert "and 4 more LeaderWorkerSets, 0 of them waiting" in lines
    assert lines[-1].startswith("waits for ")


def test_a_set_waits_for_writes_that_the_api_server_rejects() -> None:
    message = "cannot update LeaderWorkerSet llm-0-5f-decode: not before Monday"
    refused = {"type": "ReplicaFailure", "status": "True", "message": message}
    obj = {**REST.obj, "status": {**REST.obj["status"], "conditions": [refused]}}
    fewer = make_disaggregated(slices=2)
    edited = {**obj, "spec": fewer["spec"], "metadata": {**obj["metadata"], "generation": 9}}
    assert report_on_roles(replace(REST, obj=edited)).waiting_for == f"this problem to be resolved: {message}"


def test_only_edits_wait_for_the_next_revision() -> None:
    waiting = ["spec.placementPolicy", "slice 1: role decode: pods wait for nodes", "and 3 more"]
    obj = {**REST.obj, "status": {"pending": waiting}}
    lines = list(plain(status_blocks(report_on_roles(replace(REST, obj=obj)))))
    edit = "spec.placementPolicy waits for the next revision; `restart` brings it"
    assert [line for line in lines if line in (edit, *waiting)] == [edit, *waiting[1:]]


def test_a_set_that_lacks_a_role_is_not_settled() -> None:
    """The status of the set may still report that it is settled."""
    assert not report_on_roles(replace(REST, children=REST.children[1:])).is_settled


def test_a_set_is_settled_while_only_terminating_groups_without_an_index_remain() -> None:
    """Their successors serve already (groupReplacementPolicy Immediate)."""
    first, *others = REST.children
    report = report_on_roles(replace(REST, children=(replace(first, with_pods=first.desired + 1), *others)))
    assert report.is_settled
    assert report.lines[0].why == "1 of its groups are still terminating"


@pytest.mark.parametrize(("requested", "is_settled"), [(2, True), (5, False), (0, False)])
def test_a_set_whose_scaler_requests_another_number_is_not_settled(requested: int, is_settled: bool) -> None:
    roles = [make_role("prefill", 2), make_role("decode", None)]
    rest = steps_ahead(DisaggregatedSnapshot(make_disaggregated(roles=roles, slices=2), NOW)).end
    (scaler,) = rest.scalers
    report = report_on_roles(replace(rest, scalers=({**scaler, "spec": {"replicas": requested}},)))
    assert report.is_settled == is_settled
    assert report.waiting_for == ("" if is_settled else "the controller to take its next step")


@pytest.mark.parametrize("identity", ["Ordinal", "Hash"])
async def test_objects_between_a_role_and_its_leaders_are_read(identity: str) -> None:
    obj, listed = make_disaggregated(), list[str]()
    child = make_child(obj, Identity(0, "1" * 8, "prefill"))
    child["spec"]["groupIdentity"] = identity

    async def objects(kind: str, namespace: str, selector: str) -> list[dict[str, Any]]:
        listed.append(kind)
        return [child] if kind == "LeaderWorkerSet" else []

    async def get(kind: str, namespace: str, name: str) -> dict[str, Any]:
        return obj

    cluster: Any = SimpleNamespace(listed=objects, get=get, now=datetime.now(UTC))
    await snapshot_of(Session(cluster, "default"), obj)
    expected = {"StatefulSet", "Pod"} | ({"Deployment", "ReplicaSet"} if identity == "Hash" else set())
    assert expected == set(listed) & {"StatefulSet", "Pod", "Deployment", "ReplicaSet"}
