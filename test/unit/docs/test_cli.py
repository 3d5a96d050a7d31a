"""docs/reference/cli.md lists exactly the commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from lws.cli.commands.diff import diff_data
from lws.cli.commands.doctor import Finding, Unchecked, doctor_data
from lws.cli.commands.history import history_data
from lws.cli.commands.plan import changed_set, created_roles
from lws.cli.commands.status import status_data
from lws.cli.impact import impact
from lws.cli.main import COMMANDS, commands
from lws.cli.states import report_on, report_on_roles
from lws.cli.steps_ahead import steps_ahead
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.leaderworkerset.revisions.history import describe
from lws.leaderworkerset.rollout.simulation import simulate
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated
from test.unit.lws.cli.healthy import healthy
from test.unit.lws.cli.histories import past, revision_of, set_objects, sets, snapshot_of

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
GUIDE = (REFERENCE / "cli.md").read_text(encoding="utf-8")
DATA = (REFERENCE / "data.md").read_text(encoding="utf-8")
TABLE = GUIDE.split("| Command | What it does |\n", 1)[1].split("\n\n", 1)[0]
ROWS = dict(re.findall(r"^\| `(\w+)([^|\n]*(?:\\\|[^|\n]*)*) \|", TABLE, re.MULTILINE))
EVERYWHERE = {"--namespace", "--context", "--kubeconfig", "--help"}


def options_of(command: click.Command) -> set[str]:
    """Return the names of a command's options, the long name if there is one."""
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
    documented = {
        short.get(option, option) for option in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", ROWS[name])
    }
    command = commands.get_command(click.Context(commands), name)
    assert command is not None and documented == options_of(command) - EVERYWHERE


A, B = sets("app:1", "app:2", namespace="team")
REVISIONS, PAST = [revision_of(A, 1)], past(A)
CHANGED = past(A, B).revisions
EFFECT = impact(snapshot_of(A, REVISIONS), B)
OBJ = make_disaggregated()
ROLES = steps_ahead(DisaggregatedSnapshot(OBJ, NOW)).end


@pytest.mark.parametrize(
    ("heading", "data"),
    [
        ("`status NAME`", status_data(report_on(set_objects(snapshot_of(A, REVISIONS), REVISIONS)))),
        ("`status disaggregatedset/NAME`", status_data(report_on_roles(ROLES))),
        ("`history`", history_data(PAST, PAST.revisions, with_content=True)),
        ("`diff`", diff_data("demo", *CHANGED, describe(*(change.record for change in CHANGED)))),
        ("`plan`", changed_set(B, "configured", EFFECT, simulate(EFFECT.after.rollout)).data),
        ("`doctor`", doctor_data(healthy(), [("a", Finding("b", "c", "d")), ("a", Unchecked("b", "c"))])),
        ("`plan` of a DisaggregatedSet", created_roles(OBJ, NOW, steps=True).data),
    ],
    ids=["status", "status of roles", "history", "diff", "plan", "doctor", "plan of roles"],
)
def test_the_guide_names_all_fields_of_the_json_output(heading: str, data: dict[str, Any]) -> None:
    table = DATA.split(f"| {heading} | |\n", 1)[1].split("\n\n", 1)[0]
    nested = [value for value in data.values() if isinstance(value, list) and value]
    inner = [item for values in nested for item in values[:1] if isinstance(item, dict)]
    inner += [value for key, value in data.items() if key in ("from", "to")]
    names = {*data, *(key for item in inner if "lastTransitionTime" not in item for key in item)}
    assert names <= set(re.findall(r"`(\w+)`", table))
