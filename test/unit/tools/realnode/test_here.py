"""tools.realnode.entry: a failure while a node starts is reported in one line."""

from __future__ import annotations

import pytest

from tools.localcluster import CommandError
from tools.realnode import entry as here


class Failing:
    """A cluster to which the manifest of DNS cannot be applied."""

    def __init__(self, kit: object) -> None:
        pass

    def __enter__(self) -> None:
        raise CommandError("kubectl apply -f dns.yaml: connection refused")

    def __exit__(self, *_: object) -> None:
        pass


def test_a_failure_to_start_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(here, "read_kit", lambda: None)
    monkeypatch.setattr(here, "RealCluster", Failing)
    assert here.main() == 1
    assert capsys.readouterr().err == "error: kubectl apply -f dns.yaml: connection refused\n"
