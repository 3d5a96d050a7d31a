"""docs/concepts/rollouts.md draws rollouts as the planner plays them, and says what the status says.

To draw them anew, run pytest with UPDATE_DOCS=1 in the environment and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lws.leaderworkerset import spec
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.simulation import simulate
from lws.leaderworkerset.rollout.state import RolloutState, budget
from lws.leaderworkerset.status import summary
from lws_api.leaderworkerset.v1 import LeaderWorkerSet
from test.unit.builders import make_set
from test.unit.stories.letters import groups, letters_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "concepts" / "rollouts.md"
BLOCK = re.compile(r"^```rollout\n(?P<asked>.*)\n(?P<drawn>(?:.*\n)*?)```$", re.MULTILINE)
ASKED = re.compile(r"replicas (\d+), maxUnavailable (\d+), maxSurge (\d+), partition (\d+)")
SIGNS = str.maketrans({"r": "○", "R": "●", "x": "◌", "u": "◌", "t": "×", "T": "×", "-": "·"})


def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def drawn(asked: str) -> str:
    """A rollout from the first step to its end, a line each."""
    match = ASKED.fullmatch(asked)
    assert match is not None, asked
    replicas, unavailable, surge, partition = map(int, match.groups())
    stored = LeaderStatefulSet(replicas, 0, asked=replicas, is_current=False)
    limits = budget(replicas, unavailable, surge)
    played = simulate(RolloutState(replicas, limits, partition, groups("r" * replicas), stored))

    def signs(states: object) -> str:
        return " ".join(letters_of(states, replicas + surge).translate(SIGNS))  # type: ignore[arg-type]

    width = max(len("groups"), 2 * (replicas + surge)) + 2
    lines = [f"{'groups':<{width}}{'told':<26}why"]
    for step in played.steps:
        told = f"replicas {step.rollout.replicas}, partition {step.rollout.partition}"
        lines.append(f"{signs(step.groups):<{width}}{told:<26}{step.rollout.why}")
    return "\n".join([*lines, signs(played.groups)]) + "\n"


def test_rollouts_are_drawn_as_they_are_played() -> None:
    before = text()
    after = BLOCK.sub(lambda found: f"```rollout\n{found['asked']}\n\n{drawn(found['asked'])}```", before)
    if os.environ.get("UPDATE_DOCS"):
        DOCUMENT.write_text(after, encoding="utf-8")
    assert after == before, "run with UPDATE_DOCS=1 and read the difference"


def test_there_are_drawings_of_each_kind() -> None:
    asked = [ASKED.fullmatch(found["asked"]) for found in BLOCK.finditer(text())]
    numbers = [tuple(map(int, found.groups())) for found in asked if found is not None]
    assert len(numbers) == len(asked) >= 5
    assert any(surge for _, _, surge, _ in numbers)
    assert any(partition for *_, partition in numbers)
    assert any(unavailable > 1 for _, unavailable, _, _ in numbers)
    assert any(replicas == 1 and surge for replicas, _, surge, _ in numbers)


def test_numbers_and_defaults_are_those_of_the_code() -> None:
    assert spec.progress_deadline_of(make_set()) is None
    assert "Without that field the condition is never there" in text()
    assert f"at most {summary.MOST_NAMED} of those" in text()
    defaults = spec.rolling_update_of({"spec": {}})
    for field, default in defaults.items():
        assert f"| `{field}` | {default} |" in text()


def test_every_field_of_the_status_that_it_names_exists() -> None:
    table = text().split("| In the status | Means |")[1].split("\n\n")[0]
    first_column = re.findall(r"^\| (.*?) \| ", table, re.MULTILINE)
    named = {name for cell in first_column if "condition" not in cell for name in re.findall(r"`(\w+)", cell)}
    status = LeaderWorkerSet.model_fields["status"].annotation
    fields = {field.alias for field in status.model_fields.values()}  # type: ignore[union-attr]
    assert named <= fields
    assert {"rollout", "members", "restarts", "groups", "lastProgressTime"} <= named


def test_every_state_of_a_group_is_named() -> None:
    states = {
        each.state
        for letters in ("rxtu-", "T")
        for each in summary.summarise(groups(letters), len(letters), 0, False).unsettled
    }
    missing = [state for state in {*states, "Ready"} if f"`{state}`" not in text()]
    assert missing == []


@pytest.mark.parametrize(
    "condition", ["Available", "Progressing", "UpdateInProgress", "ReplicaFailure", "Stalled"]
)
def test_every_condition_is_explained(condition: str) -> None:
    assert re.search(rf"^\| condition .*`{condition}`", text(), re.MULTILINE)
