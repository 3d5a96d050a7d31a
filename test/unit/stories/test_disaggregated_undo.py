"""Tests that `lws undo` takes a DisaggregatedSet back to each earlier revision.

Roles are added and removed between the revisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lws.cli.commands.undo import _undo
from lws.kube.metadata import is_terminating, labels_of
from lws_api.disaggregatedset.v1 import KIND, REVISION_LABEL
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_world import World
from test.unit.stories.test_disaggregated_commands import DEMO, Terminal

Spec = dict[str, Any]


def image(name: str) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for role in spec["roles"]:
            pod = role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
            pod["containers"][0]["image"] = name

    return change


def with_router(spec: Spec) -> None:
    spec["roles"].append(make_role("router", 1))


def with_encode_for_router(spec: Spec) -> None:
    spec["roles"] = [role for role in spec["roles"] if role["name"] != "router"]
    spec["roles"].append(make_role("encode", 2))


CHANGES = (image("b"), with_router, with_encode_for_router)
"""The changes from revision 1 to revision 4."""


@pytest.fixture
def terminal(loop: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]) -> Terminal:
    world = World(loop)
    obj = make_disaggregated(roles=[make_role("prefill", 4), make_role("decode", 2)])
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    return Terminal(world, loop, capsys)


def history(terminal: Terminal) -> list[tuple[str, list[str]]]:
    """Play revisions 1 to 3 until each is settled. Return their keys and roles."""
    world, revisions = terminal.world, [_newest(terminal.world)]
    for change in CHANGES[:-1]:
        world.edit(change)
        world.settle()
        revisions.append(_newest(world))
    return revisions


def _newest(world: World) -> tuple[str, list[str]]:
    ((key, roles),) = world.counts().items()
    return key, sorted(roles)


def running(world: World, key: str) -> set[str]:
    """Return the UIDs of the pods of a revision that are not terminating."""
    names = tuple(
        f"{child['metadata']['name']}-" for child in world.children if labels_of(child)[REVISION_LABEL] == key
    )
    return {
        pod["metadata"]["uid"]
        for pod in world.cluster.of_kind("Pod")
        if pod["metadata"]["name"].startswith(names) and not is_terminating(pod)
    }


def undo(terminal: Terminal, revision: int) -> None:
    code, output = terminal(_undo, DEMO, revision, None)
    assert code == 0 and f"rolled back to revision {revision}" in output


@pytest.mark.parametrize("revision", [1, 2, 3])
@pytest.mark.parametrize("is_at_rest", [True, False], ids=["at rest", "in the middle of a rollout"])
def test_undo_restores_every_earlier_revision(terminal: Terminal, revision: int, is_at_rest: bool) -> None:
    world, revisions = terminal.world, history(terminal)
    (last, _), (key, roles) = revisions[-1], revisions[revision - 1]
    world.edit(CHANGES[-1])
    if is_at_rest:
        world.settle()
    else:
        # Some groups of revision 3 are gone, and some still run.
        while min(world.counts()[last].values()) == 1 and world.counts()[last]["prefill"] == 4:
            assert world.go_on()
    undo(terminal, revision)
    survivors = running(world, key) if not is_at_rest else set()
    world.settle()
    assert _newest(world) == (key, roles)
    assert survivors <= running(world, key), "what still runs it is not restarted"
    assert bool(survivors) == (revision == 3 and not is_at_rest)
    assert world.conditions["Available"] == "True"


def test_undo_restores_the_revisions_of_a_short_history(terminal: Terminal) -> None:
    """The limit counts only revisions that no group runs."""
    world = terminal.world
    world.edit(lambda spec: spec.update(revisionHistoryLimit=1))
    revisions = history(terminal)
    world.edit(CHANGES[-1])
    while len(world.counts()) < 2:
        assert world.go_on()
    undo(terminal, 3)
    world.settle()
    assert _newest(world) == revisions[-1]
    owned = world.cluster.owned_by(world.get(KIND)["metadata"]["uid"], "ControllerRevision")
    assert len(owned) == 2
