"""Flags as Go programs take them."""

from __future__ import annotations

import click
import pytest

from lws.cli.commands.manager import manager
from lws.cli.main import as_double_dashed

PARAMS = [
    click.Option(["--config"]),
    click.Option(["--leader-elect"], type=bool),
    click.Option(["--zap-devel"], type=bool),
    click.Option(["--kube-api-qps"], type=float),
    click.Option(["-v", "--verbose"], is_flag=True),
]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["--config=x"], ["--config=x"], id="two-dashes"),
        pytest.param(["-config=x"], ["--config=x"], id="one-dash"),
        pytest.param(["-config", "x"], ["--config", "x"], id="one-dash-and-a-value"),
        pytest.param(["--leader-elect"], ["--leader-elect=true"], id="bare-boolean"),
        pytest.param(["-leader-elect"], ["--leader-elect=true"], id="bare-boolean-with-one-dash"),
        pytest.param(["--leader-elect=false"], ["--leader-elect=false"], id="boolean-with-value"),
        pytest.param(["-leader-elect=false"], ["--leader-elect=false"], id="boolean-with-value-and-one-dash"),
        pytest.param(
            ["-leader-elect", "-config", "x"],
            ["--leader-elect=true", "--config", "x"],
            id="booleans-take-no-value",
        ),
        pytest.param(["-leader-elect", "false"], ["--leader-elect=true", "false"], id="not-even-this-one"),
        pytest.param(["-config", "-x.yaml"], ["--config", "-x.yaml"], id="a-value-that-looks-like-a-flag"),
        pytest.param(["--kube-api-qps", "-1.5"], ["--kube-api-qps", "-1.5"], id="a-negative-value"),
        pytest.param(
            ["-config", "-leader-elect", "-zap-devel"],
            ["--config", "-leader-elect", "--zap-devel=true"],
            id="a-value-that-is-called-like-a-flag",
        ),
        pytest.param(["-config"], ["--config"], id="a-value-is-missing"),
        pytest.param(["-unknown", "-config=x"], ["--unknown", "--config=x"], id="unknown-flags"),
        pytest.param(["-h"], ["-h"], id="short-flag"),
        pytest.param(["-help"], ["--help"], id="help"),
        pytest.param(["--", "-config"], ["--", "-config"], id="nothing-after-two-dashes"),
        pytest.param(
            ["-config=x", "--", "-a", "-leader-elect"], ["--config=x", "--", "-a", "-leader-elect"], id="rest"
        ),
        pytest.param(["-"], ["-"], id="a-dash"),
        pytest.param(["manager", "-config=x"], ["manager", "--config=x"], id="behind-a-subcommand"),
    ],
)
def test_spellings(given: list[str], taken: list[str]) -> None:
    assert as_double_dashed(given, PARAMS) == taken


@pytest.mark.parametrize(
    "arguments",
    [
        ["--leader-elect=false", "--zap-devel=false", "--zap-log-level=2", "--config=/c.yaml"],
        ["-leader-elect=false", "-zap-devel=false", "-zap-log-level=2", "-config=/c.yaml"],
        ["-leader-elect=false", "-zap-devel=false", "-zap-log-level", "2", "-config", "/c.yaml"],
        ["--leader-elect=F", "--zap-devel=0", "--zap-log-level", "2", "--config", "/c.yaml"],
    ],
    ids=["two-dashes", "one-dash", "separate-values", "other-truths"],
)
def test_deployments_of_the_original_start_ours(arguments: list[str]) -> None:
    context = manager.make_context("manager", as_double_dashed(arguments, manager.params))
    assert context.params["leader_elect"] is False and context.params["zap_devel"] is False
    assert (context.params["zap_log_level"], context.params["config"]) == ("2", "/c.yaml")
