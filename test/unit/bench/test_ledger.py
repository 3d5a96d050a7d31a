"""What is counted in a namespace, and when it can be."""

from __future__ import annotations

from typing import Any

import pytest

from test.bench.ledger import DISAGGREGATED, SETS, Ledger
from tools.localcluster.api import ApiError


class _Api:
    """Refuses as many lists as it is told, with this status."""

    def __init__(self, refusals: int, status: int) -> None:
        self.refusals, self.status = refusals, status

    def get(self, _: str) -> dict[str, Any]:
        if self.refusals:
            self.refusals -= 1
            raise ApiError(self.status, "storage is (re)initializing")
        return {"items": [], "metadata": {"resourceVersion": "7"}}

    def watch(self, *_: Any) -> list[Any]:
        return []


def _ledger(monkeypatch: pytest.MonkeyPatch, refusals: int, status: int) -> Any:
    monkeypatch.setattr(Ledger, "_follow", lambda *_: None)
    monkeypatch.setattr("test.bench.ledger.time.sleep", lambda _: None)
    api: Any = _Api(refusals, status)
    return Ledger(api, "bench", SETS)


def test_a_storage_that_is_being_made_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ledger(monkeypatch, 3, 429).sets == {}


def test_without_a_namespace_it_is_about_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_follow", lambda *_: None)
    asked: list[str] = []
    api: Any = _Api(0, 0)
    api.get = lambda path: asked.append(path) or {"items": [], "metadata": {"resourceVersion": "7"}}
    Ledger(api, "", SETS)
    assert asked == ["/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"]


def test_any_other_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError, match="initializing"):
        _ledger(monkeypatch, 1, 403)


def test_a_set_is_available_as_the_generation_that_its_status_is_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = _ledger(monkeypatch, 0, 0)
    conditions = [{"type": "Available", "status": "True"}]
    for generation, observed, expected in ((1, 1, 1), (2, 1, 0), (2, 2, 2)):
        status = {"observedGeneration": observed, "conditions": conditions}
        obj = {"metadata": {"name": "ds-0", "generation": generation}, "status": status}
        ledger._take(DISAGGREGATED, "MODIFIED", obj)
        assert ledger.disaggregated == {"ds-0": expected}
