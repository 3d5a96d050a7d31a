"""lws.cli.commands.restart: the patch that recreates every group."""

from __future__ import annotations

import pytest

from lws.cli.commands.restart import restart_patch
from lws.cli.session import Refusal
from lws.kube.metadata import RESTARTED_AT_ANNOTATION
from test.unit.builders import NOW, make_pod_template, make_set
from test.unit.disaggregated import make_disaggregated, make_role

ANNOTATED = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "2026-03-01T12:00:00Z"}}}


def test_both_templates_are_annotated_if_there_are_two() -> None:
    assert restart_patch(make_set(), NOW) == {"spec": {"leaderWorkerTemplate": {"workerTemplate": ANNOTATED}}}
    both = make_set(template={"leaderTemplate": make_pod_template()})
    assert restart_patch(both, NOW)["spec"]["leaderWorkerTemplate"] == {
        "leaderTemplate": ANNOTATED,
        "workerTemplate": ANNOTATED,
    }


def test_a_paused_set_is_not_restarted() -> None:
    with pytest.raises(Refusal, match="set demo is paused: resume it first"):
        restart_patch(make_set(rolloutStrategy={"paused": True}), NOW)


def test_a_second_restart_within_a_second_is_rejected() -> None:
    lws = make_set()
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = ANNOTATED["metadata"]
    with pytest.raises(Refusal, match="restarted within this second"):
        restart_patch(lws, NOW)


LEFT_ALONE = {"type": "ReplicaFailure", "status": "True", "reason": "UnsupportedField"}


def test_a_set_that_is_not_reconciled_is_not_restarted() -> None:
    """The restart would happen much later, when upstream reconciles the set again."""
    with pytest.raises(Refusal, match=r"set demo would not be restarted: spec\.scheduling: "):
        restart_patch(make_set(scheduling={}, status={"conditions": [LEFT_ALONE]}), NOW)
    assert restart_patch(make_set(scheduling={}), NOW), "without the condition, the set counts as reconciled"


def test_all_roles_are_restarted_by_one_patch() -> None:
    """A merge patch replaces the whole list, so all other fields of the roles must be in it."""
    roles = [make_role("prefill", 3), make_role("decode", None, startAfter=["prefill"])]
    roles[1]["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = make_pod_template()
    obj = make_disaggregated(roles=roles)
    patch = restart_patch(obj, NOW)
    prefill, decode = patch["spec"]["roles"]
    assert prefill["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] == ANNOTATED["metadata"]
    for part in ("leaderTemplate", "workerTemplate"):
        annotations = decode["spec"]["leaderWorkerTemplate"][part]["metadata"]["annotations"]
        assert annotations == ANNOTATED["metadata"]["annotations"]
    assert (prefill["spec"]["replicas"], decode["startAfter"]) == (3, ["prefill"])
    assert roles == obj["spec"]["roles"] and "metadata" not in str(roles[0])
    with pytest.raises(Refusal, match="restarted within this second"):
        restart_patch({**obj, "spec": patch["spec"]}, NOW)
    with pytest.raises(Refusal, match=r"paused: resume it first \(resume disaggregatedset/demo\)"):
        restart_patch(make_disaggregated(rolloutStrategy={"paused": True}), NOW)
