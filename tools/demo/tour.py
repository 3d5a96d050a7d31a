"""Answers: did every step of the tour do what it should?

In: a scene and a display. Out: how many checks were made, and which of them did not hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tools.demo.acts import ACTS
from tools.demo.check import Check
from tools.demo.manifest import read_manifest
from tools.demo.mirror import NotInTime
from tools.demo.picture import picture_of, summary
from tools.demo.play import Play, SetMissingError
from tools.demo.record import Kind
from tools.demo.scene import Scene
from tools.demo.show import Show
from tools.deployment import REPOSITORY, DeploymentError
from tools.localcluster import ApiError, CommandError

MANIFEST = REPOSITORY / "examples" / "quickstart.yaml"
_LAST_WORDS = 12


@dataclass(frozen=True, slots=True)
class Result:
    """What came of the tour. failed: the claims that did not hold."""

    checks: int
    failed: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return not self.failed and self.checks > 0


def run_tour(scene: Scene, show: Show) -> Result:
    """Play every act, and stop after the first one of which a check did not hold."""
    manifest = read_manifest(MANIFEST.read_text("utf-8"))
    there = scene.mirror.fresh().objects
    kept = frozenset(each["metadata"]["uid"] for kind in Kind for each in there[kind])
    play = Play(scene, show, manifest, MANIFEST, kept)
    made = 0
    for title, act in ACTS:
        show.begin(title.format(groups=manifest.replicas, size=manifest.size))
        began = time.monotonic()
        checks = _perform(act, play)
        show.verified(checks)
        made += len(checks)
        failed = tuple(check.claim for check in checks if not check.held)
        held = len(checks) - len(failed)
        show.say(f"{held} of {len(checks)} facts hold, {time.monotonic() - began:.1f} s")
        if failed:
            show.fail(f"the manager's last words:\n{scene.manager.last_words(_LAST_WORDS)}")
            return Result(made, failed)
    return Result(made)


def _perform(act: Callable[[Play], list[Check]], play: Play) -> list[Check]:
    """What the act has verified; an act that could not be played to its end is a check that did not hold."""
    try:
        return act(play)
    except NotInTime as late:
        found = summary(picture_of(late.view, datetime.now(UTC)))
        return [Check(late.wanted, False, f"within {late.seconds:.0f} s", found)]
    except (ApiError, CommandError, DeploymentError, LookupError, SetMissingError) as error:
        return [Check("the step can be played", False, "no error", str(error))]
    finally:
        play.show.wait_for("")
