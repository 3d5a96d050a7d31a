"""lws.cli.commands.pause: when there is nothing to pause or to resume."""

from __future__ import annotations

import pytest

from lws.cli.commands.pause import check
from lws.cli.refusal import Refusal
from test.unit.builders import make_set

PAUSED = make_set(rolloutStrategy={"paused": True})


def test_a_change() -> None:
    check(make_set(), paused=True)
    check(PAUSED, paused=False)


def test_no_change() -> None:
    with pytest.raises(Refusal, match="set demo is already paused"):
        check(PAUSED, paused=True)
    with pytest.raises(Refusal, match="set demo is not paused"):
        check(make_set(), paused=False)
