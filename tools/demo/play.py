"""Answers: with which hands does the tour act, and with which eyes does it look?

In: a scene, a display, the manifest of a set. Out: commands, shown and run; views of what came of them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.demo.facts import SetFacts
from tools.demo.installation import holder
from tools.demo.manifest import Manifest
from tools.demo.mirror import NAMESPACE, NotInTime
from tools.demo.passes import read_passes
from tools.demo.record import View
from tools.demo.scene import Scene
from tools.demo.settled import Goal, is_empty, is_reached
from tools.demo.show import Show
from tools.localcluster.kubeconfig import read_access

_SECONDS = 90.0
_SCRAPE_SECONDS = 0.2


class SetMissingError(RuntimeError):
    """There is no set where the tour needs one."""


@dataclass(frozen=True)
class Play:
    """One set, and everything that can happen to it.

    file: the manifest, made of one set. kept: UIDs of what was there before it and stays.
    """

    scene: Scene
    show: Show
    manifest: Manifest
    file: Path
    kept: frozenset[str]

    def kubectl(self, *arguments: str) -> None:
        """Run kubectl, and show the command as a user would type it."""
        self.show.say(f"$ kubectl {shlex.join(arguments)}")
        self.scene.cluster.kubectl("--namespace", NAMESPACE, *arguments)

    def until(self, goal: Goal, wanted: str) -> View:
        """Wait until the set is as it should be, then ask the API server past all streams.

        Raises NotInTime.
        """
        self._until(lambda view: is_reached(view, goal), wanted)
        return self.scene.mirror.fresh()

    def until_empty(self) -> View:
        """Wait until nothing of the set is left, then ask the API server. Raises NotInTime."""
        self._until(lambda view: is_empty(view, self.kept), "everything to be gone")
        return self.scene.mirror.fresh()

    def until_taken_over(self, former: str) -> None:
        """Wait until another manager than the former one holds the Lease. Raises NotInTime."""
        self._until(lambda view: holder(view) not in ("", former), "the new manager to take over the Lease")

    def until_passes(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Wait until the manager has made this many passes, and return those it made. Raises NotInTime."""
        said = "the new manager to look at every object"
        self.show.wait_for(said)
        token = read_access(self.scene.cluster.kubeconfig.read_text()).token
        deadline = time.monotonic() + _SECONDS
        while True:
            passes = read_passes(self.scene.manager.metrics_port, token)
            if all(passes.get(controller, 0) >= count for controller, count in wanted.items()):
                return passes
            if time.monotonic() > deadline:
                raise NotInTime(said, _SECONDS, self.scene.mirror.view())
            # Nothing tells when a counter moves: a scrape has to be repeated.
            time.sleep(_SCRAPE_SECONDS)

    def facts(self, view: View) -> SetFacts:
        """The set. Raises SetMissingError."""
        found = view.set(self.manifest.name)
        if found is None:
            raise SetMissingError(f"LeaderWorkerSet {NAMESPACE}/{self.manifest.name} does not exist")
        return found

    def _until(self, is_true: Callable[[View], bool], wanted: str) -> None:
        self.show.wait_for(wanted)
        self.scene.mirror.until(is_true, _SECONDS, wanted)
        self.show.wait_for("")
