"""Tests of an undo while several revisions with different roles run, with every write judged."""

from __future__ import annotations

import asyncio
import copy
from typing import Any, cast

import pytest

from lws.cli.commands.undo import _undo
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
"""The roles of each revision, oldest first. Each revision has an image of its own, too."""


def state(number: int) -> list[dict[str, Any]]:
    """Return the roles of a revision, counted from 1."""
    image = f"app:{number}"
    return [make_role(name, GROUPS, image, rolling=ROLLING) for name in STATES[number - 1]]


class History:
    """A set that moves from one revision to the next, with all writes judged.

    keys: the keys of its revisions.
    """

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
        """Wrap `delete`: no revision is deleted while a child carries its key."""

        async def checked(target: Reference, *args: Any, **more: Any) -> Any:
            keys = {key for key in self.recorded() if f"-{key}-" in target.name}
            assert target.kind != "ControllerRevision" or not keys & self.world.counts().keys()
            return await delete(target, *args, **more)

        return checked

    def ask_for(self, number: int) -> None:
        """Request a revision, and play until it is recorded."""
        self.world.edit(lambda spec: spec.update(roles=copy.deepcopy(state(number))))
        while self.attack.key in self.keys:
            self.round()
        self.keys.append(self.attack.key)

    def round(self) -> None:
        self.attack.go(1)
        self.world.manager.ring()

    def undo(self, number: int) -> None:
        """Undo to a revision as `lws undo` does.

        number: the number as of `state`. The set counts differently: a revision that returned has a higher
        number, and a pruned one has none.
        """
        revision = self.recorded().get(self.keys[number - 1], 99)
        session = Session(cast(UserCluster, Served(self.world.cluster)), NAMESPACE)
        assert self._loop.run_until_complete(_undo(session, DEMO, revision, None)) == 0

    def recorded(self) -> dict[str, int]:
        """Numbers of the recorded revisions of the set, by key."""
        revisions = self.world.cluster.of_kind("ControllerRevision")
        own = [revision for revision in revisions if NAME_LABEL in revision["metadata"].get("labels", {})]
        return {
            revision["metadata"]["labels"][REVISION_LABEL]: revision["revision"]
            for revision in own
            if "roles" in str(revision["data"])
        }

    def pods(self, number: int) -> dict[str, str]:
        """Return the UIDs of the pods of a revision that are not terminating, by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.world.cluster.of_kind("Pod")
            if pod["metadata"]["labels"].get(REVISION_LABEL) == self.keys[number - 1]
            and not is_terminating(pod)
        }

    def check_end(self, number: int) -> None:
        """Check that the set is settled on a revision, with its roles and images.

        A role that returns has as many groups as the command found recorded.
        """
        self.attack.go()
        self.attack.check_end()
        roles = self.world.get(KIND)["spec"]["roles"]
        assert [role["name"] for role in roles] == [*STATES[number - 1]]
        expected = {role["name"]: role["spec"]["replicas"] for role in roles}
        assert self.world.counts() == {self.keys[number - 1]: expected}
        images = {pod["spec"]["containers"][0]["image"] for pod in self.world.cluster.of_kind("Pod")}
        assert images == {f"app:{number}"}
        assert max(self.recorded().items(), key=lambda item: item[1])[0] == self.keys[number - 1]


@pytest.mark.parametrize(
    ("number", "rounds"), [(1, (1, 1, 1)), (1, (3, 3, 3)), (2, (9, 1, 1)), (2, (12, 2, 2)), (3, (2, 3, 3))]
)
def test_undo_keeps_pods_that_still_run_the_restored_revision(
    loop: asyncio.AbstractEventLoop, number: int, rounds: tuple[int, ...]
) -> None:
    """Each revision is requested when the previous one has replaced only some groups.

    rounds: how many rounds each of the later revisions gets.
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
def test_the_shortest_history_keeps_only_running_revisions(
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
