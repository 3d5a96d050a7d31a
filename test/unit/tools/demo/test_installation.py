from __future__ import annotations

from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import API_GROUP
from test.unit.tools.demo.objects import make_lease, make_view
from tools.demo.scene import holder, verify_definition, verify_webhooks


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        pytest.param([], "", id="no Lease"),
        pytest.param([""], "", id="released"),
        pytest.param(["", "me"], "me", id="held"),
    ],
)
def test_the_holder_of_the_lease(holders: list[str], expected: str) -> None:
    leases = [make_lease(identity) for identity in holders]
    for number, lease in enumerate(leases):
        lease["metadata"]["uid"] = str(number)
    assert holder(make_view(leases=leases)) == expected


def definition(version: str, served: bool, established: str) -> dict[str, Any]:
    return {
        "spec": {"group": API_GROUP, "versions": [{"name": version, "served": served}]},
        "status": {"conditions": [{"type": "Established", "status": established}]},
    }


@pytest.mark.parametrize(
    ("obj", "held"),
    [
        pytest.param(definition("v1", True, "True"), True, id="served"),
        pytest.param(definition("v1", True, "False"), False, id="not established"),
        pytest.param(definition("v1", False, "True"), False, id="not served"),
        pytest.param(definition("v2", True, "True"), False, id="another version"),
        pytest.param({**definition("v1", True, ""), "status": {}}, False, id="not established"),
    ],
)
def test_the_definition(obj: dict[str, Any], held: bool) -> None:
    assert verify_definition(obj).held == held


def configuration(*clients: dict[str, Any]) -> dict[str, Any]:
    return {"webhooks": [{"name": f"hook-{n}", "clientConfig": client} for n, client in enumerate(clients)]}


GOOD = {"url": "https://127.0.0.1:9443/mutate", "caBundle": "Q0E="}


def test_webhooks_that_call_the_manager() -> None:
    check = verify_webhooks([configuration(GOOD, GOOD), configuration(GOOD)], 9443)
    assert check.held and check.claim.startswith("3 webhooks")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({**GOOD, "url": "https://127.0.0.1:9444/mutate"}, id="another port"),
        pytest.param({"url": GOOD["url"]}, id="no certificate"),
        pytest.param({"service": {"name": "webhook"}, "caBundle": "Q0E="}, id="a Service"),
    ],
)
def test_webhooks_that_do_not_call_the_manager(bad: dict[str, Any]) -> None:
    check = verify_webhooks([configuration(GOOD, bad)], 9443)
    assert not check.held and check.actual == "not so: hook-1"


def test_missing_webhooks_fail_the_check() -> None:
    assert not verify_webhooks([], 9443).held
