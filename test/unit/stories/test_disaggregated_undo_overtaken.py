"""Back to an earlier revision while several run, whose roles have come and gone, with every write judged."""

from __future__ import annotations

import asyncio
import copy
from typing import Any, cast

import pytest

from lws.cli.commands.undo import UndoOptions, _undo
from lws.cli.session import Refusal, Session
from lws.kube.metadata import is_terminating
from lws.runtime.actions import Reference
from lws.runtime.client.user_cluster import UserCluster
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_attack import Attack
from test.unit.stories.disaggregated_world import World
from test.unit.stories.fake_cluster import NAMESPACE
from test.unit.stories.test_disaggregated_commands import DEMO, Served

ROLLING = {"maxSurge": 0, "maxUnavailable": 1}
GROUPS = 4
STATES = (("prefill", "decode"), ("prefill", "decode", "router"), ("prefill", "router"), ("decode", "proxy"))
"""The roles of each revision, oldest first; each has an image of its own too."""


def state(number: int) -> list[dict[str, Any]]:
    """The roles of a revision, from 1 on."""
    image = f"app:{number}"
    return [make_role(name, GROUPS, image, rolling=ROLLING) for name in STATES[number - 1]]


class History:
    """A set that goes from one revision to the next, all its writes judged. keys: of its revisions."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **spec: Any) -> None:
        self.attack, self._loop = Attack(loop), loop
        self.keys: list[str] = []
        cluster: Any = self.world.cluster
        cluster.delete = self._checked(cluster.delete)
        obj = make_disaggregated(roles=state(1), **spec)
        del obj["metadata"]["uid"]
        self.world.cluster.add(obj)
        self.attack.go()
        self.keys.append(self.attack.key)

    @property
    def world(self) -> World:
        return self.attack.world

    def _checked(self, delete: Any) -> Any:
        """No revision goes that a child carries."""

        async def checked(target: Reference, *args: Any, **more: Any) -> Any:
            gone = {key for key in self.recorded() if f"-{key}-" in target.name}
            assert target.kind != "ControllerRevision" or not gone & self.world.counts().keys()
            return await delete(target, *args, **more)

        return checked

    def ask_for(self, number: int) -> None:
        """And it is recorded."""
        self.world.edit(lambda spec: spec.update(roles=copy.deepcopy(state(number))))
        while self.attack.key in self.keys:
            self.round()
        self.keys.append(self.attack.key)

    def round(self) -> None:
        self.attack.go(1)
        self.world.manager.ring()

    def undo(self, number: int) -> None:
        """As `lws undo` does it. number: as of `state`; a revision that came back has a higher one, and that
        of one that is gone is nobody's.
        """
        found = self.recorded().get(self.keys[number - 1], 99)
        session = Session(cast(UserCluster, Served(self.world.cluster)), NAMESPACE)
        manner = UndoOptions(found, dry_run=False, output=None)
        assert self._loop.run_until_complete(_undo(session, DEMO, manner)) == 0

    def recorded(self) -> dict[str, int]:
        """Numbers of the revisions of the set, by key."""
        known = self.world.cluster.of_kind("ControllerRevision")
        own = [each for each in known if NAME_LABEL in each["metadata"].get("labels", {})]
        return {
            each["metadata"]["labels"][REVISION_LABEL]: each["revision"]
            for each in own
            if "roles" in str(each["data"])
        }

    def pods(self, number: int) -> dict[str, str]:
        """UIDs of pods of that revision that stay, by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.world.cluster.of_kind("Pod")
            if pod["metadata"]["labels"].get(REVISION_LABEL) == self.keys[number - 1]
            and not is_terminating(pod)
        }

    def check_end(self, number: int) -> None:
        """At rest on that revision, with the roles and the images that it had. A role that comes back has as
        many groups as the command found of it.
        """
        self.attack.go()
        self.attack.check_end()
        roles = self.world.get(KIND)["spec"]["roles"]
        assert [each["name"] for each in roles] == [*STATES[number - 1]]
        wanted = {each["name"]: each["spec"]["replicas"] for each in roles}
        assert self.world.counts() == {self.keys[number - 1]: wanted}
        images = {pod["spec"]["containers"][0]["image"] for pod in self.world.cluster.of_kind("Pod")}
        assert images == {f"app:{number}"}
        assert max(self.recorded().items(), key=lambda each: each[1])[0] == self.keys[number - 1]


@pytest.mark.parametrize(
    ("number", "rounds"), [(1, (1, 1, 1)), (1, (3, 3, 3)), (2, (9, 1, 1)), (2, (12, 2, 2)), (3, (2, 3, 3))]
)
def test_a_rollout_comes_back_and_what_still_runs_that_revision_stays(
    loop: asyncio.AbstractEventLoop, number: int, rounds: tuple[int, ...]
) -> None:
    """Each revision is asked for when the one before has replaced some groups only. rounds: how far each of
    the later ones gets.
    """
    it = History(loop)
    for later, most in zip((2, 3, 4), rounds, strict=True):
        it.ask_for(later)
        for _ in range(most):
            it.round()
    running = it.pods(number)
    assert running and len(it.world.counts()) > 1
    it.undo(number)
    it.check_end(number)
    assert it.pods(number).items() >= running.items()


@pytest.mark.parametrize("number", [1, 3])
def test_the_shortest_history_keeps_whatever_runs_and_nothing_else(
    loop: asyncio.AbstractEventLoop, number: int
) -> None:
    it = History(loop, revisionHistoryLimit=1)
    for later in (2, 3, 4):
        it.ask_for(later)
        for _ in range(3):
            it.round()
    assert it.keys[0] in it.world.counts() and len(it.recorded()) == len(STATES)
    it.undo(number)
    it.check_end(number)
    assert len(it.recorded()) == 2
    with pytest.raises(Refusal):
        it.undo(2)
