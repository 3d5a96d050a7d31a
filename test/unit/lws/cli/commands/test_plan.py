"""lws.cli.commands.plan: output without a cluster, in each requested format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.cli.commands import plan as module
from lws.cli.commands.plan import (
    apply_patch,
    changed_set,
    created_roles,
    created_set,
    last_applied,
    roles_impact,
    roles_impact_lines,
    steps_blocks,
)
from lws.cli.impact import impact
from lws.cli.main import main
from lws.cli.screen import plain
from lws.cli.session import Refusal
from lws.cli.steps_ahead import steps_ahead
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.kube.metadata import LAST_APPLIED_ANNOTATION
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.simulation import Simulation, simulate
from lws.leaderworkerset.rollout.state import RolloutState, make_budget
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import NOW, make_group, make_leader_statefulset, make_pod_template
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.fake_api import answer_json
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.histories import revision_of, set_objects, sets, snapshot_of
from test.unit.stories.letters import groups

NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a file with one set; no cluster is configured."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    template = {"size": 2, "workerTemplate": make_pod_template()}
    lws = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "demo"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
    }
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(lws))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["plan", *arguments])
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    assert "without a cluster, only creation can be planned" in err
    return out


def test_lines(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = printed(capsys, "-f", manifest).splitlines()
    assert first == f"{NAME} would be created"
    assert second.startswith("new: 2 groups of 2 pods, 4 in all")


def test_names(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "-f", manifest, "-o", "name") == f"{NAME}\n"


def test_data(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = json.loads(printed(capsys, "-f", manifest, "--steps", "-o", "json"))["items"]
    assert (item["name"], item["action"], item["added"]) == ("demo", "created", [0, 1])
    assert item["steps"]
    assert yaml.safe_load(printed(capsys, "-f", manifest, "--steps", "-o", "yaml")) == {"items": [item]}


A, B = sets("app:1", "app:2", replicas=3)
CHANGE = "worker template container main image: app:1 → app:2"


def test_an_update() -> None:
    effect = impact(snapshot_of(A, [revision_of(A, 1)]), B)
    plan = changed_set(B, "configured", effect, simulate(effect.after.rollout))
    lines = list(plain(plan.blocks))
    assert lines[:3] == [
        "groups 0 to 2 restart, by a rollout, one at a time",
        f"  {CHANGE}",
        "steps, if every new group gets ready:",
    ]
    data = plan.data
    steps = data.pop("steps")
    assert data == {
        "name": "demo",
        "namespace": "default",
        "action": "configured",
        "key": record(B).key,
        "replicas": 3,
        "added": [],
        "removed": [],
        "restarts": [0, 1, 2],
        "restartsAnyway": [],
        "recreated": [],
        "unknown": [],
        "changes": [CHANGE],
        "changesAtOnce": [],
        "leftAlone": "",
        "waitingFor": "",
    }
    assert len(steps) == len(lines) - 4
    assert (steps[-1]["partition"], steps[-1]["replicas"]) == (0, 3)


def test_steps_are_included_only_on_request() -> None:
    effect = impact(snapshot_of(A, [revision_of(A, 1)]), A)
    plan = changed_set(A, "unchanged", effect, None)
    assert list(plain(plan.blocks)) == ["no pod is restarted: nothing changes"]
    assert not {"steps", "waitingFor"} & plan.data.keys()


def test_a_new_set() -> None:
    plan = created_set(A, NOW, steps=True)
    lines = list(plain(plan.blocks))
    assert lines[0].startswith("new: 3 groups of 2 pods, 6 in all")
    assert lines[1] == "a later update of all its groups:"
    data = plan.data
    assert (data["action"], data["added"], len(data["steps"])) == ("created", [0, 1, 2], len(lines) - 4)
    assert "restarts" not in data


def test_a_new_set_of_another_controller() -> None:
    lws = {**A, "spec": {**A["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
    plan = created_set(lws, NOW, steps=True)
    message = "kueue.x-k8s.io/multikueue runs this set (spec.managedBy)"
    assert list(plain(plan.blocks)) == [f"new, and nothing happens: {message}"]
    assert (plan.data["added"], plan.data["leftAlone"]) == ([], message)


async def test_a_set_of_another_controller_has_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    managed_by = {"managedBy": "example.com/another"}
    before, after = ({**lws, "spec": {**lws["spec"], **managed_by}} for lws in (A, B))

    async def all_of(session: Any, lws: Any) -> Any:
        return set_objects(snapshot_of(before, []), [])

    monkeypatch.setattr(module, "all_of", all_of)
    for steps in (False, True):
        plan = await module._changed_set(None, before, after, steps)  # type: ignore[arg-type]
        message = "nothing happens: example.com/another runs this set (spec.managedBy)"
        assert list(plain(plan.blocks)) == [message] and "steps" not in plan.data


@pytest.mark.parametrize(
    ("metadata", "action", "verdict"),
    [
        ({}, "unchanged", "no pod is restarted: nothing changes"),
        (
            {"annotations": {LAST_APPLIED_ANNOTATION: "{}"}},
            "unchanged",
            "no pod is restarted: nothing changes",
        ),
        ({"labels": {"team": "serving"}}, "configured", "no pod is restarted"),
        (
            {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}},
            "configured",
            "groups 0 to 2 restart, by a rollout, one at a time",
        ),
    ],
    ids=["nothing", "kubectl's own record", "a label", "a placement annotation"],
)
async def test_labels_and_annotations_are_changes(
    metadata: dict[str, Any], action: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_of(session: Any, lws: Any) -> Any:
        return set_objects(snapshot_of(A, [revision_of(A, 1)]), [])

    monkeypatch.setattr(module, "all_of", all_of)
    after = {**A, "metadata": {**A["metadata"], **metadata}}
    plan = await module._changed_set(None, A, after, False)  # type: ignore[arg-type]
    assert (plan.action, next(iter(plain(plan.blocks)))) == (action, verdict)


def test_metadata_of_disaggregated_sets() -> None:
    """A placement annotation of a role waits for the next revision; other metadata takes effect at once."""
    before, after = (make_disaggregated(roles=[make_role("prefill")]) for _ in range(2))
    after["metadata"]["labels"] = {"team": "serving"}
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack", "note": "x"}
    after["spec"]["roles"][0]["metadata"] = {"annotations": annotations}
    settled = steps_ahead(DisaggregatedSnapshot(before, NOW)).end
    lines = [line.text for line in roles_impact_lines(roles_impact(settled, after))]
    assert lines == [
        "no pod is restarted",
        "  label team added: serving (at once)",
        "  role prefill annotation note added: x (at once)",
        f"  spec.roles[0].metadata.annotations[{EXCLUSIVE_TOPOLOGY_ANNOTATION}] waits for the next revision; "
        "`restart` brings it",
    ]


def mid_rollout(lws: dict[str, Any]) -> SetSnapshot:
    """Return the snapshot of a set of three groups, the last of which runs B and is not ready."""
    leader = make_leader_statefulset(B, key=record(B).key, partition=2)
    snapshot = snapshot_of(lws, [revision_of(A, 1), revision_of(B, 2)], [A, A, B], leader)
    broken = make_group(B, 2, key=record(B).key, ready=False, workers_ready=False)
    return replace(snapshot, groups=(*snapshot.groups[:2], broken))


UNREADABLE = {**A, "spec": {**A["spec"], "spread": "zones"}}
"""The CRD of a later release accepts its field."""


@pytest.mark.parametrize(
    ("stored", "after", "message"),
    [
        (UNREADABLE, UNREADABLE, "the stored set has it, and this apply would keep it"),
        (A, UNREADABLE, "remove it"),
    ],
    ids=["stored", "from the manifest"],
)
async def test_a_set_that_is_unreadable_after_the_apply(
    stored: dict[str, Any], after: dict[str, Any], message: str, talk: Talk
) -> None:
    talk.api.will(answer_json(stored), answer_json(after))
    why = rf"could not be read after this apply: spec\.spread is unknown to this release.*; {message}"
    with pytest.raises(Refusal, match=why):
        await module._planned(talk.session, A, module.PlanOptions())


async def test_a_manifest_that_corrects_an_unreadable_set(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_of(session: Any, lws: Any) -> Any:
        return set_objects(mid_rollout(lws), [])

    monkeypatch.setattr(module, "all_of", all_of)
    talk.api.will(answer_json(UNREADABLE), answer_json(B))
    plan = await module._planned(talk.session, B, module.PlanOptions())
    first, second, *_ = plain(plan.blocks)
    assert first.startswith("corrects the stored set, which is left alone: spec.spread is unknown")
    assert second == "still to restart, by the rollout: groups 0 to 1"
    assert (plan.action, plan.data["action"]) == ("configured", "configured")


async def test_what_is_ahead_in_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of(session: Any, lws: Any) -> Any:
        return set_objects(mid_rollout(lws), [])

    monkeypatch.setattr(module, "all_of", all_of)
    plan = await module._changed_set(None, B, B, False)  # type: ignore[arg-type]
    assert (plan.data["restarts"], plan.data["restartsAnyway"]) == ([], [0, 1])
    assert list(plain(plan.blocks)) == [
        "still to restart, by the rollout: groups 0 to 1",
        "waits for group 2 to be ready",
    ]


def test_a_rollout() -> None:
    stored = LeaderStatefulSet(replicas=2, partition=0, last_replicas=2, is_current=False)
    state = RolloutState(2, make_budget(2, 1, 0), groups=groups("rr"), statefulset=stored)
    assert list(plain(steps_blocks(simulate(state)))) == [
        "steps, if every new group gets ready:",
        "STEP   READY   UPDATED   PARTITION   REPLICAS   WHAT",
        "1      2       0         0 → 2       2          there is a new revision: groups move to it from the "
        "highest index down",
        "2      2       0         2 → 1       2          group 1 may move to the new revision: 2 groups are "
        "ready, 1 must stay; replacing group 1",
        "3      2       1         1 → 0       2          group 0 may move to the new revision: 2 groups are "
        "ready, 1 must stay; replacing group 0",
    ]


def test_a_creation() -> None:
    lines = list(plain(steps_blocks(simulate(RolloutState(2, make_budget(2, 1, 0))))))
    assert lines[2] == "1      0       0         0           2          2 groups to be created"


def test_nothing_to_do() -> None:
    assert list(plain(steps_blocks(Simulation((), (), "")))) == ["no steps: everything is as the set asks"]


def test_the_last_line_reports_the_pause() -> None:
    stored = LeaderStatefulSet(replicas=2, partition=0, last_replicas=2, is_current=False)
    state = RolloutState(2, make_budget(2, 1, 0), groups=groups("rr"), statefulset=stored, paused=True)
    assert list(plain(steps_blocks(simulate(state))))[-1] == "and then waits for the rollout to be resumed"


def stored(spec: dict[str, Any], applied: Any = None) -> dict[str, Any]:
    annotations = {} if applied is None else {LAST_APPLIED_ANNOTATION: json.dumps({"spec": applied})}
    return {"metadata": {"name": "a", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("applied", "spec", "now", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {}, id="a default set by others is kept"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 1, "b": 2}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {"a": 1, "c": 3}, {"a": 1}, {"c": 3}, id="new"),
        pytest.param(
            {"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}, id="removed from the manifest"
        ),
        pytest.param(
            {"a": 1, "b": 2}, {"a": 1}, {"a": 1}, {}, id="removed from the manifest and absent already"
        ),
        pytest.param({"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": 2}, {"b": None}, id="null takes away"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, {"a": 1}, {}, id="null for an absent field"),
        pytest.param(None, {"a": 1}, {"a": 1, "b": 2}, {}, id="not applied yet"),
        pytest.param(
            {"t": {"x": 1, "y": 2}},
            {"t": {"x": 3}},
            {"t": {"x": 1, "y": 2, "z": 4}},
            {"t": {"x": 3, "y": None}},
            id="deeper",
        ),
        pytest.param(
            {"l": [{"name": "a"}]},
            {"l": [{"name": "a"}]},
            {"l": [{"name": "a", "d": 1}]},
            {"l": [{"name": "a"}]},
            id="lists are replaced completely, including their defaults",
        ),
    ],
)
def test_three_way(applied: Any, spec: Any, now: Any, patch: Any) -> None:
    actual = apply_patch({"metadata": {"name": "a"}, "spec": spec}, stored(now, applied))
    assert actual == ({"spec": patch} if patch else {})


def test_labels_removed_from_the_manifest_are_deleted() -> None:
    before = {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "annotations": {}}}
    annotations = {LAST_APPLIED_ANNOTATION: json.dumps(before)}
    now = {"metadata": {"name": "a", "uid": "u", "labels": {"x": "1", "y": "2"}, "annotations": annotations}}
    assert apply_patch({"metadata": {"name": "a", "labels": {"x": "1"}}}, now) == {
        "metadata": {"labels": {"y": None}}
    }


def test_the_record_of_kubectl_in_the_manifest_is_not_applied() -> None:
    manifest = {"metadata": {"name": "a", "annotations": {LAST_APPLIED_ANNOTATION: "{}", "b": "1"}}}
    assert apply_patch(manifest, stored({})) == {"metadata": {"annotations": {"b": "1"}}}


@pytest.mark.parametrize("annotations", [["a"], [], "a", {"a": 1}])
def test_invalid_annotations_are_left_to_the_api_server(annotations: Any) -> None:
    manifest = {"metadata": {"name": "a", "annotations": annotations}}
    assert apply_patch(manifest, stored({})) == {"metadata": {"annotations": annotations}}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000], ids=lambda text: text[:5])
def test_an_invalid_last_applied_annotation_counts_as_empty(text: str) -> None:
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED_ANNOTATION: text}}}) == {}


def test_a_new_paused_disaggregated_set_has_the_steps_of_a_later_update() -> None:
    paused, running = (make_disaggregated(rolloutStrategy={"paused": value}) for value in (True, False))
    plan, usual = (created_roles(obj, NOW, steps=True).data for obj in (paused, running))
    assert plan["steps"] and plan["steps"] == usual["steps"]
