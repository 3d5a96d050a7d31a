"""Tests that every accepted DisaggregatedSet settles or says why not, when created and when changed.

The schema yields 400 draws. Those that admission accepts and that are small are played; the images of some
never start. HYPOTHESIS_PROFILE=nightly draws 10,000 other ones.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lws.disaggregatedset.admission.validation import errors_in
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import KIND
from test.integration.fields.random_disaggregated import FIELDS, disaggregated_sets
from test.unit.fuzz.validity import is_valid
from test.unit.stories.disaggregated_world import World

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
DRAWS = 10_000 if NIGHTLY else 400
MOST_GROUPS, MOST_PODS = 8, 4
MOST_TURNS = 300
GOOD, BROKEN = "app:1", "broken:1"
IMAGES = (GOOD, "app:2", "app:2", BROKEN)


@pytest.fixture(scope="module")
def outcomes() -> Counter[str]:
    """How many sets reached each end."""
    return Counter()


@settings(
    max_examples=DRAWS // 2,
    derandomize=not NIGHTLY,
    database=None,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(drawn=st.lists(st.tuples(disaggregated_sets(), st.sampled_from(IMAGES)), min_size=2, max_size=2))
def test_an_accepted_set_settles_or_reports_why_not(
    drawn: list[tuple[dict[str, Any], str]], outcomes: Counter[str]
) -> None:
    """One set is created, and changed to the other at whatever point the first has reached."""
    with asyncio.Runner() as runner:
        world = World(runner.get_loop())
        world.nodes.hopeless = frozenset({BROKEN})
        for raw, image in drawn:
            obj = accepted(raw, image)
            if obj is None or not send(world, obj):
                outcomes["refused"] += 1
                continue
            go_on(world)
            outcomes[outcome_of(world)] += 1


def accepted(raw: dict[str, Any], image: str) -> dict[str, Any] | None:
    """Return the set as it would be stored; None if it is rejected or too large to play.

    image: the image of containers for which no other field was drawn.
    """
    stored: dict[str, Any] = defaulted({**copy.deepcopy(raw), "metadata": {"name": "demo"}})
    stored.pop("status", None)
    if not is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) or errors_in(stored):
        return None
    # A deadline of hours would need more turns than are played.
    stored["spec"]["progressDeadlineSeconds"] = min(60, stored["spec"].get("progressDeadlineSeconds") or 60)
    roles = stored["spec"]["roles"]
    for template in (role["spec"]["leaderWorkerTemplate"] for role in roles):
        for part in (template.get("leaderTemplate"), template["workerTemplate"]):
            for container in part["spec"]["containers"] if part else ():
                if container.get("image", GOOD) == GOOD:
                    container["image"] = image
    groups = stored["spec"].get("slices", 1) * sum(role["spec"].get("replicas", 1) for role in roles)
    pods = max(role["spec"]["leaderWorkerTemplate"].get("size", 1) for role in roles)
    return stored if groups <= MOST_GROUPS and pods <= MOST_PODS else None


def send(world: World, obj: dict[str, Any]) -> bool:
    """Create or change the set. Return whether admission accepts it."""
    stored = world.cluster.find(KIND, "demo")
    if stored is None:
        world.cluster.add(obj)
        return True
    if errors_in({**stored, "spec": obj["spec"]}, stored):
        return False
    world.cluster.change(stored, spec=obj["spec"])
    return True


def go_on(world: World) -> None:
    """Play until nothing changes any more, however long it takes."""
    quiet = 0
    for _ in range(MOST_TURNS):
        version = world.cluster.version
        world.go_on()
        world.manager.ring()
        quiet = quiet + 1 if version == world.cluster.version else 0
        if quiet > 3:
            return
    raise AssertionError(f"it does not come to rest: {world.status}")


def outcome_of(world: World) -> str:
    """Return the end of the set as one word.

    A set that is not available says why, and only images that do not start keep it so.
    """
    obj, status = world.get(KIND), world.status
    assert status["observedGeneration"] == obj["metadata"]["generation"]
    if world.conditions.get("Available") == "True":
        return "available"
    messages = {
        condition["type"]: condition["message"]
        for condition in status["conditions"]
        if condition["status"] == "True"
    }
    assert "groups of the target revision are ready" in messages["Stalled"], messages
    assert BROKEN in str(obj["spec"])
    return "stalled"


def test_every_outcome_occurs(outcomes: Counter[str]) -> None:
    """Otherwise the test above would prove little."""
    if not outcomes:
        pytest.skip("needs the outcomes of the sets above")
    assert min(outcomes["available"], outcomes["refused"]) > 0.2 * outcomes.total(), outcomes
    assert outcomes["stalled"] > 0.02 * outcomes.total(), outcomes
