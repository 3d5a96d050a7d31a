"""Commands that cannot succeed print one clear sentence, return an exit code, and change nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.groups import labels_of, name_of, pod_uids, revisions_of, settle
from test.harness.manifests import a_set, new_image
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.cli.command import Caller
from tools.localcluster import ClusterAccess

Object = dict[str, Any]
NOT_FOUND, FORBIDDEN = "Error from server (NotFound)", "Error from server (Forbidden)"
NO_ANSWER = "Unable to connect to the server"


@pytest.fixture
def demo(world: World) -> Callable[[], object]:
    """A settled set with two revisions. Return a function for the state that must not change."""
    world.create(a_set("demo", replicas=1))
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    settle(world, "demo")
    return lambda: (world.get(SET, "demo")["spec"], pod_uids(world, "demo"))


def add(world: World, like: Object, name: str, changes: Object, metadata: Object) -> None:
    """Create another ControllerRevision, which equals `like` except for the changes."""
    copied = ("labels", "annotations", "ownerReferences")
    described = {key: like["metadata"][key] for key in copied if key in like["metadata"]}
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": like["data"], **changes}
    world.create({**revision, "metadata": {**described, "name": name, **metadata}})


def error_of(lws: Caller, *arguments: str, opening: str = "error") -> str:
    """Return the one sentence of the error."""
    result = lws(*arguments)
    # In `diff`, as in kubectl's, 1 means a difference.
    assert (result.code, result.out) == (2 if arguments[0] == "diff" else 1, "")
    assert result.err.startswith(f"{opening}: ")
    assert result.err.count("\n") == 1
    return result.err.removeprefix(f"{opening}: ").rstrip("\n")


def test_unknown_names_and_revisions_are_reported(
    world: World, lws: Caller, demo: Callable[[], object]
) -> None:
    before = demo()
    for command in ("history", "diff", "undo", "restart", "pause", "resume", "status"):
        why = error_of(lws, command, "lws/demmo", opening=NOT_FOUND)
        assert why == (
            f'leaderworkersets.leaderworkerset.x-k8s.io "demmo" not found in namespace "{world.namespace}"; '
            f"did you mean demo?"
        )
    for command, option in (("history", "--revision"), ("diff", "--to"), ("undo", "--to-revision")):
        assert error_of(lws, command, "demo", option, "7") == "set demo has no revision 7: there is 1, 2"
    elsewhere = Caller(lws.kubeconfig, "kube-system")
    why = error_of(elsewhere, "status", "demo", opening=NOT_FOUND)
    assert why.endswith("there is none; choose another namespace with -n")
    assert demo() == before


def test_broken_revisions_are_reported_and_not_used(
    world: World, lws: Caller, demo: Callable[[], object]
) -> None:
    before, (first, second) = demo(), revisions_of(world, "demo")
    # The set's current revision stays the newest; otherwise the controller would raise its number.
    world.patch("ControllerRevision", name_of(second), {"revision": 20})
    add(world, second, "demo-broken-7", {"revision": 7, "data": {"spec": {"other": 1}}}, {})
    add(world, first, "demo-twin-1", {"revision": 1}, {"labels": {**labels_of(first), REVISION_LABEL: "x"}})
    shared = {**labels_of(second), REVISION_LABEL: labels_of(first)[REVISION_LABEL]}
    add(world, second, "demo-shared-5", {"revision": 5}, {"labels": shared})
    add(world, second, "demo-orphan-9", {"revision": 9}, {"ownerReferences": []})

    result = lws("history", "demo")
    assert result.code == 1
    assert len(result.lines) == 2 + 5
    warnings = "\n".join(sorted(result.err.splitlines()))
    for sentence in (
        "Warning: ControllerRevision demo-broken-7: data contains no leaderWorkerTemplate",
        "Warning: ControllerRevision demo-orphan-9 (revision 9) has no owner",
        "Warning: ControllerRevision demo-shared-5 contains other data than its name says",
        "Warning: more than one revision has the number 1",
    ):
        assert sentence in warnings

    for number, why in {
        "7": "revision 7 cannot be used: ControllerRevision demo-broken-7: data contains no",
        "1": "more than one revision has the number 1",
        "5": "revision 5 cannot be used: ControllerRevision demo-shared-5 contains other data",
        "9": "ControllerRevision demo-orphan-9 (revision 9) has no owner",
    }.items():
        assert why in error_of(lws, "undo", "demo", "--to-revision", number)
        assert why in error_of(lws, "history", "demo", "--revision", number)
        assert why in error_of(lws, "diff", "demo", "--from", number, "--to", number)
    assert demo() == before


def test_missing_permissions_are_reported(
    cluster: ClusterAccess, world: World, lws: Caller, demo: Callable[[], object], tmp_path: Path
) -> None:
    before = demo()
    world.kubectl("create", "serviceaccount", "nobody")
    world.kubectl("create", "serviceaccount", "viewer")
    world.kubectl(
        "create", "rolebinding", "viewer", "--clusterrole=view", f"--serviceaccount={world.namespace}:viewer"
    )
    nobody = Caller(cluster.kubeconfig_for_service_account(world.namespace, "nobody"), None)
    viewer = Caller(cluster.kubeconfig_for_service_account(world.namespace, "viewer"), None)

    why = error_of(nobody, "history", "demo", opening=FORBIDDEN)
    assert 'cannot get resource "leaderworkersets"' in why
    assert "ask an administrator of the cluster for the role view" in why
    eventually("the role takes effect", lambda: viewer("status", "demo"), lambda result: result.code == 0)
    assert "settled" in viewer.succeed("status", "demo").lines
    assert len(viewer.succeed("history", "demo").lines) == 4
    text = json.dumps(a_set("demo", replicas=1))
    for arguments in (
        ("undo", "demo"),
        ("undo", "demo", "--dry-run"),
        ("restart", "demo"),
        ("pause", "demo"),
    ):
        assert 'cannot patch resource "leaderworkersets"' in error_of(viewer, *arguments, opening=FORBIDDEN)
    result = viewer("plan", "-f", "-", stdin=text)
    assert (result.code, result.out) == (1, "")
    assert 'cannot patch resource "leaderworkersets"' in result.err

    # An administrator whose kubeconfig impersonates the viewer.
    config = json.loads(world.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    config["users"][0]["user"]["as"] = f"system:serviceaccount:{world.namespace}:viewer"
    path = tmp_path / "impersonating.yaml"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    why = error_of(Caller(path, world.namespace), "undo", "demo", opening=FORBIDDEN)
    assert f'User "system:serviceaccount:{world.namespace}:viewer" cannot patch' in why
    assert demo() == before


def test_an_unreachable_cluster_is_reported(world: World, lws: Caller) -> None:
    config = json.loads(world.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    path = lws.kubeconfig.parent / "nowhere.yaml"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    began = time.monotonic()
    assert error_of(Caller(path, "default"), "status", "demo", opening=NO_ANSWER).startswith("GET ")
    # Retries would take minutes.
    assert time.monotonic() - began < 60

    # A plan of a creation, if the set exists in the cluster, would hide every restart.
    result = Caller(path, None)("plan", "-f", "-", stdin=json.dumps(a_set("demo", replicas=2)))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(NO_ANSWER)
