"""The concept pages show each kind of rollout, with the messages of the status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lws.leaderworkerset import fields
from lws.leaderworkerset.rollout.state import Budget, RolloutState
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status import summary
from lws_api.leaderworkerset.v1 import LeaderWorkerSet
from test.unit.builders import make_set
from test.unit.stories.letters import groups
from tools.pictures.__main__ import STORIES
from tools.pictures.steps import parse_story

CONCEPTS = Path(__file__).parents[3] / "docs" / "concepts"
PAGES = [CONCEPTS / "rollouts.md", CONCEPTS / "status.md"]
PICTURE = re.compile(r"\(\S*pictures/rollout-([\w-]+)\.svg\)")


def text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_each_kind_of_rollout_has_a_picture() -> None:
    stories = {
        name: parse_story((STORIES / f"{name}.txt").read_text("utf-8")) for name in PICTURE.findall(text())
    }
    headings = " / ".join(story.chapters[0].heading for story in stories.values())
    assert len(stories) >= 5
    for kind in ("maxUnavailable 1; ", "maxUnavailable 2; ", "maxSurge 1; ", "partition 4; ", "1 group, "):
        assert kind in headings


def test_numbers_and_defaults_match_the_code() -> None:
    assert SetSpec.of(make_set()).progress_deadline is None
    assert "The deadline is optional" in text()
    assert f"at most {summary.MOST_NAMED} of those" in text()
    for field in (fields.PARTITION, fields.MAX_UNAVAILABLE, fields.MAX_SURGE):
        assert f"| `{field.name}` | {field.default} |" in text()


def test_every_named_status_field_exists() -> None:
    table = text().split("| In the status | Means |")[1].split("\n\n")[0]
    first_column = re.findall(r"^\| (.*?) \| ", table, re.MULTILINE)
    named = {name for cell in first_column if "condition" not in cell for name in re.findall(r"`(\w+)", cell)}
    status = LeaderWorkerSet.model_fields["status"].annotation
    aliases = {field.alias for field in status.model_fields.values()}  # type: ignore[union-attr]
    assert named <= aliases
    assert {"rollout", "members", "restarts", "groups", "lastProgressTime"} <= named


def test_every_state_of_a_group_is_named() -> None:
    rollouts = [
        RolloutState(len(letters), Budget(1, 0), groups=groups(letters)) for letters in ("rxtu-", "T")
    ]
    states = {group.state for rollout in rollouts for group in summary.summarise(rollout).unsettled}
    missing = [state for state in {*states, "Ready"} if f"`{state}`" not in text()]
    assert missing == []


@pytest.mark.parametrize(
    "condition", ["Available", "Progressing", "UpdateInProgress", "ReplicaFailure", "Stalled"]
)
def test_every_condition_is_explained(condition: str) -> None:
    assert re.search(rf"^\| condition .*`{condition}`", text(), re.MULTILINE)
