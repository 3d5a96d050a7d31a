"""Answers: did every step of the tour on a real node do what it should? Run inside, by tools/nodedemo.

In: the command line. Out: 0 if every check held, else 1.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

from tools.demo.check import Check
from tools.demo.plain import PlainShow
from tools.deployment import NAMESPACE
from tools.localcluster import ApiError, BuildError, CommandError, ComponentError
from tools.nodedemo.acts import ACTS
from tools.nodedemo.stage import NotInTimeError, Stage
from tools.realnode.cluster import RealCluster
from tools.realnode.entry import invitation
from tools.realnode.errors import NodeError
from tools.realnode.kit import read_kit

_EXPECTED = (ApiError, BuildError, CommandError, ComponentError, NodeError, NotInTimeError, OSError)


def main() -> int:
    """Play every act, stop after the first of which a check does not hold, and stay unless --once."""
    show = PlainShow(sys.stdout)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with RealCluster(read_kit(), report=show.build) as cluster:
            made, failed = _play(Stage(cluster, show))
            show.tell(
                ["", f"All {made} checks held." if not failed else f"{failed} of {made} checks did not hold."]
            )
            if "--once" not in sys.argv[1:]:
                show.tell(
                    ["", "The cluster stays up until Ctrl-C. In another terminal:", *invitation(cluster)]
                )
                signal.pause()
        return 1 if failed else 0
    except _EXPECTED as error:
        show.fail(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _play(stage: Stage) -> tuple[int, int]:
    made = 0
    for title, act in ACTS:
        stage.show.begin(title)
        began = time.monotonic()
        checks = _perform(act, stage)
        stage.show.verified(checks)
        made += len(checks)
        failed = sum(not check.held for check in checks)
        stage.show.say(
            f"{len(checks) - failed} of {len(checks)} facts hold, {time.monotonic() - began:.1f} s"
        )
        if failed:
            return made, failed
    return made, 0


def _perform(act: Callable[[Stage], list[Check]], stage: Stage) -> list[Check]:
    try:
        with stage.cluster.clock.watched():
            return act(stage)
    except _EXPECTED as error:
        pods = stage.cluster.kubectl("get", "pods", "-A", "-o", "wide")
        events = stage.cluster.kubectl("get", "events", "-n", NAMESPACE)
        return [Check("the step can be played", False, "no error", f"{error}\n{pods}\n{events}")]


if __name__ == "__main__":
    sys.exit(main())
