"""lws.cli.commands.undo: the patch that rolls back, and `--dry-run` with the same values as in kubectl."""

from __future__ import annotations

from typing import Any

import click
import jsonpatch
import pytest

from lws.cli.commands.undo import FIELD_MANAGER, _undo, appliers, check, operations, undo
from lws.cli.histories import set_history
from lws.cli.session import Refusal
from lws.cli.sets import NamedSet, refuse_paused
from lws.history.plan import recognise
from lws.leaderworkerset.revisions.history import is_equal, record
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_set
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.histories import past, revision_of, sets, snapshot_of
from test.unit.lws.cli.test_lookup import world

A, B, C = sets("app:1", "app:2", "app:3")
RACK = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
CLAIM = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}


def undone(lws: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the set after the API server has applied the patch."""
    patched: dict[str, Any] = jsonpatch.JsonPatch(operations).apply(lws)
    return patched


def test_the_restored_set_equals_the_earlier_revision() -> None:
    history = past(A, B)
    target = history.numbered(1)
    patch = operations(B, target)
    assert [(operation["op"], operation["path"]) for operation in patch] == [
        ("test", "/metadata/resourceVersion"),
        ("replace", "/spec/leaderWorkerTemplate"),
        ("replace", "/spec/networkConfig"),
    ]
    assert patch[0]["value"] == B["metadata"]["resourceVersion"]
    assert "$patch" not in str(patch)
    after = undone(B, patch)
    assert recognise(history.revisions, lambda revision: is_equal(record(after), revision, None)) is target


def test_a_concurrent_change_fails_the_patch() -> None:
    changed = {**B, "metadata": {**B["metadata"], "resourceVersion": "2"}}
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        undone(changed, operations(B, past(A, B).numbered(1)))


def test_an_absent_network_config_is_restored_as_shared() -> None:
    unsaid = make_set(image="app:1", networkConfig=None)
    live = make_set(image="app:2", networkConfig={"subdomainPolicy": "UniquePerReplica"})
    history = past(unsaid, live)
    assert operations(live, history.numbered(1))[2]["value"] == {"subdomainPolicy": "Shared"}
    bare = make_set(image="app:2")
    del bare["spec"]["networkConfig"]
    assert operations(bare, history.numbered(1))[2]["op"] == "add"
    assert undone(bare, operations(bare, history.numbered(1)))["spec"]["networkConfig"] == {
        "subdomainPolicy": "Shared"
    }


def test_fields_outside_the_revision_are_not_changed() -> None:
    policy = {"whenDeleted": "Delete"}
    live = make_set(
        image="app:2", template={"restartPolicy": "None", "persistentVolumeClaimRetentionPolicy": policy}
    )
    template = undone(live, operations(live, past(A, live).numbered(1)))["spec"]["leaderWorkerTemplate"]
    assert (template["restartPolicy"], template["persistentVolumeClaimRetentionPolicy"]) == ("None", policy)
    assert template["workerTemplate"]["spec"]["containers"][0]["image"] == "app:1"
    limited = make_set(image="app:2", template={"maxGroupRestarts": 3})
    template = undone(limited, operations(limited, past(A, limited).numbered(1)))["spec"][
        "leaderWorkerTemplate"
    ]
    assert template["maxGroupRestarts"] == 3
    was = past(live, A).numbered(1)
    back = undone(A, operations(A, was))["spec"]["leaderWorkerTemplate"]
    assert back["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert "persistentVolumeClaimRetentionPolicy" not in back


@pytest.mark.parametrize(
    ("then", "now", "after"),
    [
        (RACK, None, RACK),
        (RACK, {"a/b~c": "x"}, {"a/b~c": "x", **RACK}),
        (RACK, {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}, RACK),
        (None, {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone", "team": "a"}, {"team": "a"}),
        (None, {SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}, {}),
        (None, {"team": "a"}, {"team": "a"}),
    ],
)
def test_annotations_of_a_revision_are_restored(
    then: dict[str, str] | None, now: dict[str, str] | None, after: dict[str, str]
) -> None:
    old, live = make_set(image="app:1", annotations=then), make_set(image="app:2", annotations=now)
    history = past(old, live)
    patched = undone(live, operations(live, history.numbered(1)))
    assert patched["metadata"].get("annotations", {}) == after
    assert recognise(
        history.revisions, lambda revision: is_equal(record(patched), revision, None)
    ) is history.numbered(1)


def test_annotations_are_kept_if_an_earlier_release_recorded_none() -> None:
    old = revision_of(A, 1)
    del old["metadata"]["annotations"]
    live = make_set(image="app:2", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    revisions = [old, revision_of(live, 2)]
    history = set_history(snapshot_of(live, revisions), revisions)
    assert len(operations(live, history.numbered(1))) == 3


def test_a_paused_set_is_not_undone() -> None:
    paused = make_set(image="app:2", rolloutStrategy={"type": "RollingUpdate", "paused": True})
    with pytest.raises(Refusal, match=r"set demo is paused: resume it first \(resume demo\), then undo"):
        refuse_paused(paused, "undo")


@pytest.mark.parametrize(
    ("then", "now", "refusal"),
    [
        ({"volumeClaimTemplates": [CLAIM]}, {}, "other volumeClaimTemplates"),
        ({}, {"volumeClaimTemplates": [CLAIM]}, "other volumeClaimTemplates"),
        ({"subGroupPolicy": {"subGroupSize": 1}}, {}, "has a subGroupPolicy, and that can be neither added"),
        ({}, {"subGroupPolicy": {"subGroupSize": 1}}, "has no subGroupPolicy, and that can be neither added"),
    ],
)
def test_immutable_fields_prevent_an_undo(then: dict[str, Any], now: dict[str, Any], refusal: str) -> None:
    old, live = make_set(image="app:1", template=then), make_set(image="app:2", template=now)
    history = past(old, live)
    with pytest.raises(Refusal, match=refusal):
        check(live, history.numbered(1))


def test_claims_in_another_spelling_do_not_prevent_an_undo() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    old = make_set(image="app:1", template={"volumeClaimTemplates": [CLAIM]})
    live = make_set(image="app:2", template={"volumeClaimTemplates": [claim]})
    history = past(old, live)
    check(live, history.numbered(1))


@pytest.mark.parametrize(
    ("manager", "operation", "fields", "named"),
    [
        ("flux", "Apply", {"f:spec": {"f:leaderWorkerTemplate": {"f:size": {}}}}, True),
        ("flux", "Apply", {"f:spec": {"f:networkConfig": {}}}, True),
        ("flux", "Apply", {"f:spec": {"f:replicas": {}}}, False),
        ("flux", "Apply", {}, False),
        ("kubectl-client-side-apply", "Update", {"f:spec": {"f:leaderWorkerTemplate": {}}}, True),
        ("argocd-controller", "Update", {"f:spec": {"f:leaderWorkerTemplate": {}}}, True),
        ("kubectl-edit", "Update", {"f:spec": {"f:leaderWorkerTemplate": {}}}, False),
        (FIELD_MANAGER, "Update", {"f:spec": {"f:leaderWorkerTemplate": {}}}, False),
    ],
)
def test_managers_that_apply_the_template(
    manager: str, operation: str, fields: dict[str, Any], named: bool
) -> None:
    lws = make_set()
    lws["metadata"]["managedFields"] = [{"manager": manager, "operation": operation, "fieldsV1": fields}]
    assert appliers(lws) == ([manager] if named else [])


def test_no_manager_applies_the_template() -> None:
    assert appliers(make_set()) == []
    lws = make_set()
    fields = {"f:spec": {"f:leaderWorkerTemplate": {}}}
    lws["metadata"]["managedFields"] = [
        {"manager": "x", "operation": "Apply", "subresource": "status", "fieldsV1": fields}
    ]
    assert appliers(lws) == []


@pytest.mark.parametrize(
    ("arguments", "dry_run"),
    [
        (["demo"], "none"),
        (["demo", "--dry-run"], "server"),
        (["--dry-run", "demo"], "server"),
        (["demo", "--dry-run=server"], "server"),
        (["demo", "--dry-run=none"], "none"),
    ],
)
def test_dry_run(arguments: list[str], dry_run: str) -> None:
    params = undo.make_context("undo", arguments).params
    assert (params["name"], params["dry_run"]) == ("demo", dry_run)


def test_an_unknown_dry_run() -> None:
    with pytest.raises(click.BadParameter, match="'client' is not one of 'none', 'server'"):
        undo.make_context("undo", ["demo", "--dry-run=client"])


async def test_an_undo_to_the_current_revision_is_skipped(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with `kubectl rollout undo`; a revision with the same content changes nothing either."""
    lws = make_set(namespace="team")
    revisions = [revision_of(lws, number) for number in (1, 2)]
    for number in (1, 2):
        talk.api.will(*[world(lws, *revisions)] * 20)
        assert await _undo(talk.session, NamedSet("demo"), number, None) == 0
        name = "leaderworkerset.leaderworkerset.x-k8s.io/demo"
        expected = f"{name} skipped rollback (current template already matches revision {number})\n"
        assert capsys.readouterr().out == expected
        assert all(request.method == "GET" for request in talk.api.requests)
        talk.api.answers.clear()


async def test_an_undo_of_a_paused_set_to_the_current_revision_is_rejected(talk: Talk) -> None:
    paused = make_set(namespace="team", rolloutStrategy={"paused": True})
    talk.api.will(*[world(paused, revision_of(paused, 1))] * 20)
    with pytest.raises(Refusal, match="set demo is paused"):
        await _undo(talk.session, NamedSet("demo"), 1, None)
