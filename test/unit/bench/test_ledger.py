"""test.bench.ledger: counts of objects in a namespace, and when a set counts as available."""

from __future__ import annotations

from typing import Any

import pytest

from test.bench.ledger import DISAGGREGATED, SETS, Ledger


class _Api:
    """An API server without objects."""

    def get(self, _: str) -> dict[str, Any]:
        return {"items": [], "metadata": {"resourceVersion": "7"}}

    def watch(self, *_: Any) -> list[Any]:
        return []


def _ledger(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Ledger, "_follow", lambda *_: None)
    api: Any = _Api()
    return Ledger(api, "bench", SETS)


def test_all_namespaces_are_watched_without_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_follow", lambda *_: None)
    paths: list[str] = []
    api: Any = _Api()
    api.get = lambda path: paths.append(path) or {"items": [], "metadata": {"resourceVersion": "7"}}
    Ledger(api, "", SETS)
    assert paths == ["/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"]


def test_availability_refers_to_the_observed_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = _ledger(monkeypatch)
    conditions = [{"type": "Available", "status": "True"}]
    for generation, observed, expected in ((1, 1, 1), (2, 1, 0), (2, 2, 2)):
        status = {"observedGeneration": observed, "conditions": conditions}
        obj = {"metadata": {"name": "ds-0", "generation": generation}, "status": status}
        ledger._take(DISAGGREGATED, "MODIFIED", obj)
        assert ledger.disaggregated == {"ds-0": expected}
