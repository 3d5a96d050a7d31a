"""docs/reference/cli.md names every command with all its options, and none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from lws.cli.commands.doctor import doctor_data
from lws.cli.facts.disaggregated.status import report_on as report_on_roles
from lws.cli.facts.disaggregated.steps_ahead import steps_ahead
from lws.cli.facts.doctor.checks import Finding, Unchecked
from lws.cli.facts.impact import impact
from lws.cli.facts.set_status import report_on
from lws.cli.kinds.disaggregatedset import DisaggregatedSets
from lws.cli.main import COMMANDS, commands
from lws.cli.views.diff import diff_data
from lws.cli.views.disaggregated import status as disaggregated
from lws.cli.views.history import history_data
from lws.cli.views.plan import SetPlan, plan_data
from lws.cli.views.status import status_data
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.leaderworkerset.revisions.history import describe
from lws.leaderworkerset.rollout.simulation import simulate
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated
from test.unit.lws.cli.facts.doctor.healthy import healthy
from test.unit.lws.cli.histories import found, past, revision_of, sets, snapshot_of

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
GUIDE = (REFERENCE / "cli.md").read_text(encoding="utf-8")
DATA = (REFERENCE / "data.md").read_text(encoding="utf-8")
TABLE = GUIDE.split("| Command | What it does |\n", 1)[1].split("\n\n", 1)[0]
ROWS = dict(re.findall(r"^\| `(\w+)([^|\n]*(?:\\\|[^|\n]*)*) \|", TABLE, re.MULTILINE))
EVERYWHERE = {"--namespace", "--context", "--kubeconfig", "--help"}


def options_of(command: click.Command) -> set[str]:
    """Long names, where there is one."""
    return {
        next((name for name in option.opts if name.startswith("--")), option.opts[0])
        for option in command.params
        if isinstance(option, click.Option)
    }


def test_every_command_has_a_row() -> None:
    assert ROWS.keys() | {"resume"} == COMMANDS.keys()
    assert "`resume NAME " in ROWS["pause"]


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"manager"}))
def test_a_row_names_all_options(name: str) -> None:
    short = {"-f": "--filename", "-o": "--output", "-A": "--all-namespaces"}
    told = {short.get(each, each) for each in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", ROWS[name])}
    command = commands.get_command(click.Context(commands), name)
    assert command is not None and told == options_of(command) - EVERYWHERE


A, B = sets("app:1", "app:2", namespace="team")
REVISIONS, PAST = [revision_of(A, 1)], past(A)
EFFECT = impact(snapshot_of(A, REVISIONS), {}, B)
OBJ = make_disaggregated()
ROLES = steps_ahead(DisaggregatedSnapshot(OBJ, NOW)).end


@pytest.mark.parametrize(
    ("heading", "data"),
    [
        ("`status NAME`", status_data(report_on(found(snapshot_of(A, REVISIONS), REVISIONS)))),
        ("`status disaggregatedset/NAME`", disaggregated.status_data(report_on_roles(ROLES))),
        ("`history`", history_data(PAST, PAST.recorded, with_spec=True)),
        ("`diff`", diff_data("demo", *past(A, B).recorded, describe(*past(A, B).recorded))),
        ("`plan`", plan_data(SetPlan(B, "configured", EFFECT, simulate(EFFECT.after.rollout)))),
        ("`doctor`", doctor_data(healthy(), [Finding("a", "b", "c", "d"), Unchecked("a", "b", "c")])),
        ("`plan` of a DisaggregatedSet", DisaggregatedSets().created(OBJ, NOW, steps=True).data),
    ],
    ids=["status", "status of roles", "history", "diff", "plan", "doctor", "plan of roles"],
)
def test_the_guide_names_all_fields_of_data(heading: str, data: dict[str, Any]) -> None:
    table = DATA.split(f"| {heading} | |\n", 1)[1].split("\n\n", 1)[0]
    nested = [value for value in data.values() if isinstance(value, list) and value]
    inner = [each for values in nested for each in values[:1] if isinstance(each, dict)]
    inner += [value for key, value in data.items() if key in ("from", "to")]
    names = {*data, *(key for each in inner if "lastTransitionTime" not in each for key in each)}
    assert names <= set(re.findall(r"`(\w+)`", table))
