"""tools.localcluster.pods: waiting for pods."""

from __future__ import annotations

from typing import Any

import pytest

from tools.localcluster.pods import PodView, is_ready


def make_pod(ready: bool, **metadata: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": {"name": "p", **metadata}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod(True), True),
        (make_pod(False), False),
        (make_pod(True, deletionTimestamp="now"), False),
        ({"metadata": {}}, False),
    ],
    ids=["ready", "not ready", "terminating", "no status"],
)
def test_is_ready(pod: dict[str, Any], expected: bool) -> None:
    assert is_ready(pod) is expected


def test_selector_is_quoted() -> None:
    paths: list[str] = []

    def read(path: str) -> dict[str, Any]:
        paths.append(path)
        return {"items": []}

    assert PodView(read).matching("team", "app=x,role in (a, b)") == []
    assert paths == ["/api/v1/namespaces/team/pods?labelSelector=app%3Dx%2Crole+in+%28a%2C+b%29"]


def test_waits_for_the_exact_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    answers = [[make_pod(True)], [make_pod(True), make_pod(False)], [make_pod(True), make_pod(True)]]
    view = PodView(lambda path: {"items": answers.pop(0)})
    assert len(view.wait_ready("team", "app=x", 2)) == 2
    assert answers == []


def test_the_timeout_reports_the_pods() -> None:
    view = PodView(lambda path: {"items": [make_pod(True), make_pod(False)]})
    with pytest.raises(TimeoutError, match="expected 2 ready pods with app=x in 0 s: 1 ready, 2 exist"):
        view.wait_ready("team", "app=x", 2, timeout=0)
