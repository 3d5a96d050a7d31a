"""test.bench.bill.page: how bills are shown on the page."""

from __future__ import annotations

from typing import Any

import pytest

from test.bench.bill.measure import BACKGROUND, BARE, OURS, SERVED
from test.bench.bill.page import section
from test.bench.bill.requests import OURS as MANAGER
from test.bench.bill.settings import DESCRIPTIONS, SETTINGS


def a_bill(seconds: float) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "cpu": dict.fromkeys(("kube-apiserver", "kube-controller-manager", "etcd", "kube-scheduler"), 2.0),
        "requests": [
            ["generic-garbage-collector", "get pods", 60, 1.2],
            ["endpoint-controller", "update endpoints", 10, 0.1],
            [MANAGER, "delete pods", 10, 0.5],
            ["node-controller", "get nodes", 1, 0.1],
        ],
        "profile": {"get": 1.0, "update": 0.5},
    }


def a_result(setting: str, *names: str) -> dict[str, Any]:
    bills = {name: a_bill(10.0 * (1 + number)) for number, name in enumerate(names)}
    header = {"shape": "1x10x4", "groups": 10, "commit": "d" * 40, "machine": {"others": 0.25}}
    return {"setting": setting, **header, "bills": bills}


WHOLE = a_result("usual", BACKGROUND, BARE, SERVED, OURS)


def test_seconds_are_relative_to_the_baseline_and_other_figures_per_group() -> None:
    text = section([WHOLE])
    assert f"| {OURS} | 2.00 | 1.00 | 8.1 | 200 | 200 | 200 | 200 |" in text
    assert "| generic-garbage-collector | get pods | 6.0 | 6.0 | 6.0 | 6.0 |" in text
    assert "node-controller" not in text


def test_settings_are_columns_in_order() -> None:
    text = section([a_result("both", OURS), a_result("usual", OURS), WHOLE])
    assert text.index(DESCRIPTIONS["usual"]) < text.index(DESCRIPTIONS["both"])
    assert f"| {DESCRIPTIONS['both']} | 200 | 200 | 200 | 8.1 | 1.00 | 6.0 |" in text


@pytest.mark.parametrize("results", [[], [a_result("usual", OURS)]])
def test_no_section_without_baselines(results: list[dict[str, Any]]) -> None:
    assert "Not measured yet" in section(results)


def test_every_setting_has_a_description() -> None:
    assert list(SETTINGS) == list(DESCRIPTIONS)
