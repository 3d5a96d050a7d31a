"""lws.cli.commands.restart: the patch that has every group made anew."""

from __future__ import annotations

import pytest

from lws.cli.commands.restart import RESTARTED_AT_ANNOTATION, restart_patch
from lws.cli.refusal import Refusal
from test.unit.builders import NOW, make_pod_template, make_set

ANNOTATED = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "2026-03-01T12:00:00Z"}}}


def test_both_templates_where_there_are_two() -> None:
    assert restart_patch(make_set(), NOW) == {"spec": {"leaderWorkerTemplate": {"workerTemplate": ANNOTATED}}}
    both = make_set(template={"leaderTemplate": make_pod_template()})
    assert restart_patch(both, NOW)["spec"]["leaderWorkerTemplate"] == {
        "leaderTemplate": ANNOTATED,
        "workerTemplate": ANNOTATED,
    }


def test_not_while_it_is_paused() -> None:
    with pytest.raises(Refusal, match="set demo is paused: let it go on first"):
        restart_patch(make_set(rolloutStrategy={"paused": True}), NOW)


def test_twice_within_a_second_would_start_nothing() -> None:
    lws = make_set()
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = ANNOTATED["metadata"]
    with pytest.raises(Refusal, match="restarted within this second"):
        restart_patch(lws, NOW)


def test_not_a_set_that_is_left_alone() -> None:
    """It would be restarted once the original acts on it again, when nobody thinks of it any more."""
    with pytest.raises(Refusal, match=r"set demo would not be restarted: spec\.groupIdentity: "):
        restart_patch(make_set(groupIdentity="Hash"), NOW)
