"""tools.demo.exhibit: the objects of an example's DisaggregatedSet."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from test.unit.tools.demo.objects import make_view
from tools.demo import exhibit as roles
from tools.demo.exhibit import children_of, is_whole, verify_roles
from tools.demo.facts import Kind, View

ROLES = [{"name": "prefill"}, {"name": "decode"}]
WRITTEN: dict[str, Any] = {"metadata": {"name": "pd"}, "spec": {"slices": 2, "roles": ROLES}}


def a_child(index: int, role: str, key: str = "k", of: str = "pd") -> dict[str, Any]:
    labels = {NAME_LABEL: of, SLICE_LABEL: str(index), ROLE_LABEL: role, REVISION_LABEL: key}
    return {"metadata": {"name": f"{of}-{index}-{key}-{role}", "labels": labels}}


def a_service(child: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {**child["metadata"], "name": f"{child['metadata']['name']}-prv"}}


CHILDREN = [a_child(index, role["name"]) for index in range(2) for role in ROLES]
SERVICES = [a_service(name) for name in CHILDREN]


def a_view(sets: list[dict[str, Any]], services: list[dict[str, Any]]) -> View:
    view = make_view([])
    return View({**view.objects, Kind.SET: tuple(sets), Kind.SERVICE: tuple(services)}, {})


def test_sets_of_other_owners_are_ignored() -> None:
    view = a_view([*CHILDREN, a_child(0, "prefill", of="other")], SERVICES)
    assert children_of(view, "other") == ["other-0-k-prefill"]
    assert len(children_of(view, "pd")) == 4
    assert all(check.held for check in verify_roles(view, WRITTEN))


@pytest.mark.parametrize(
    ("sets", "services", "failed"),
    [
        pytest.param(CHILDREN[1:], SERVICES, "a LeaderWorkerSet for each role", id="a role is missing"),
        pytest.param(CHILDREN, SERVICES[1:], "a Service for each", id="a Service is missing"),
        pytest.param(
            [*CHILDREN, a_child(0, "prefill", "old")], SERVICES, "one revision", id="an old object remains"
        ),
    ],
)
def test_missing_objects_are_reported(
    sets: list[dict[str, Any]], services: list[dict[str, Any]], failed: str
) -> None:
    checks = verify_roles(a_view(sets, services), WRITTEN)
    assert any(failed in check.claim for check in checks if not check.held)


def test_a_set_is_complete_when_every_role_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {}

    def at_rest(_: View, name: str, least: int) -> bool:
        calls[name] = least
        return name != "pd-1-k-decode"

    monkeypatch.setattr(roles, "is_at_rest", at_rest)
    assert not is_whole(a_view(CHILDREN, []), WRITTEN, {"pd-decode": 2})
    assert calls["pd-0-k-decode"] == 2 and calls["pd-0-k-prefill"] == 0
    dset = {**WRITTEN, "spec": {"roles": ROLES}}
    assert is_whole(a_view(CHILDREN[:2], []), dset, {})
    assert not is_whole(a_view(CHILDREN[:1], []), dset, {})
