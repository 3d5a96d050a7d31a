"""lws.cli.writing: what a command prints when it has changed a set."""

from __future__ import annotations

import json

import pytest
import yaml

from lws.cli.writing import changed, report
from test.unit.builders import make_set

NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"
LWS = make_set()
LWS["metadata"]["managedFields"] = [{"manager": "flux"}]


def printed(output: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    report(LWS, output, [changed(LWS, "paused")])
    return capsys.readouterr().out


def test_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(None, capsys) == f"{NAME} paused\n"
    assert changed(LWS, "paused", dry_run=True).text == f"{NAME} paused (server dry run)"


def test_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("name", capsys) == f"{NAME}\n"


def test_the_set_without_managed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    expected = make_set()
    assert json.loads(printed("json", capsys)) == expected
    assert yaml.safe_load(printed("yaml", capsys)) == expected
