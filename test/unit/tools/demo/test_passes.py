from __future__ import annotations

from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request
from urllib.response import addinfourl

import pytest

from tools.demo.play import passes_in, read_passes

TEXT = """\
# HELP controller_runtime_reconcile_total Passes.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="pod",result="success"} 5.0
controller_runtime_reconcile_total{controller="pod",result="requeue_after"} 2.0
controller_runtime_reconcile_total{controller="pod",result="error"} 3.0
controller_runtime_reconcile_total{controller="leaderworkerset",result="success"} 1.0
# HELP workqueue_depth Depth.
# TYPE workqueue_depth gauge
workqueue_depth{controller="pod",name="pod"} 9.0
"""


def test_passes_that_failed_do_not_count() -> None:
    assert dict(passes_in(TEXT)) == {"pod": 7, "leaderworkerset": 1}


def test_missing_metrics_mean_no_passes() -> None:
    assert passes_in("").get("pod", 0) == 0


def test_the_token_is_sent_to_the_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Request] = []
    (tmp_path / "metrics").write_text(TEXT)

    def answer(request: Request, **_: object) -> object:
        requests.append(request)
        return addinfourl((tmp_path / "metrics").open("rb"), Message(), request.full_url, 200)

    monkeypatch.setattr("urllib.request.urlopen", answer)
    assert read_passes(8443, "secret")["pod"] == 7
    assert requests[0].full_url == "https://127.0.0.1:8443/metrics"
    assert requests[0].get_header("Authorization") == "Bearer secret"


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(URLError("refused"), id="connection refused"),
        pytest.param(HTTPError("", 403, "Forbidden", None, None), id="not allowed"),  # type: ignore[arg-type]
        pytest.param(TimeoutError(), id="no response in time"),
    ],
)
def test_an_unreachable_manager_has_no_passes(trouble: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise trouble

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    assert read_passes(8443, "secret") == {}
