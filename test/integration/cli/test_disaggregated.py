"""Every command works on a running DisaggregatedSet, and predictions come true."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from lws_api.disaggregatedset.v1 import (
    API_VERSION,
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
)
from test.harness.following import Following
from test.harness.groups import labels_of
from test.harness.manifests import pod_template
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.cli.command import Caller

NAME = "disaggregatedset/llm"
FULL_NAME = "disaggregatedset.disaggregatedset.x-k8s.io/llm"
Counts = dict[str, dict[str, int]]


def manifest(image: str, prefill: int = 2) -> dict[str, Any]:
    template = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": pod_template(image)}}
    roles = [
        {"name": name, "spec": {"replicas": replicas, **template}}
        for name, replicas in (("prefill", prefill), ("decode", 1))
    ]
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "llm"}, "spec": {"roles": roles}}


def counts(world: World) -> Counts:
    """Return the desired groups of each role and revision."""
    return counted(world.list(SET, f"{NAME_LABEL}=llm"))


def counted(sets: Iterable[Any]) -> Counts:
    result: Counts = {}
    for lws in sets:
        if lws["spec"]["replicas"]:
            labels = labels_of(lws)
            result.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = lws["spec"]["replicas"]
    return result


def settle(lws: Caller) -> None:
    result = lws("status", NAME, "--watch", "--timeout", "200")
    assert result.code == 0, result


def test_every_command_works_on_a_disaggregatedset(world: World, lws: Caller) -> None:
    world.create(manifest("server:1"))
    settle(lws)
    data = lws.succeed("status", NAME, "-o", "json").data
    assert [(role["name"], role["updatedAndReady"]) for role in data["roles"]] == [
        ("prefill", 2),
        ("decode", 1),
    ]
    key = data["key"]
    assert lws.succeed("key", NAME).out == f"llm\t{key}\n"
    # The status of a LeaderWorkerSet may come slightly later than that of the set which sees its pods.
    every = partial(lws, "status", "-o", "name")
    named = eventually("all sets are settled", every, lambda result: result.code == 0)
    assert named.lines[-1] == FULL_NAME
    assert lws.succeed("status").lines[-1].split()[:4] == [NAME, "1", "3/3", "3"]

    # The prediction for an apply comes true.
    text = json.dumps(manifest("server:2"))
    (planned,) = lws.succeed("plan", "-f", "-", "--steps", "-o", "json", stdin=text).data["items"]
    assert planned["restarts"] == {"prefill": 2, "decode": 1}
    assert counts(world) == {key: {"prefill": 2, "decode": 1}}, "a plan changes nothing"
    followed = Following(world.api, world.path(SET), f"{NAME_LABEL}=llm", world.ended)
    world.patch(KIND, "llm", {"spec": manifest("server:2")["spec"]})
    settle(lws)
    happened = iter([counted(moment.frame.values()) for moment in followed.moments()])
    # A step is one write for each LeaderWorkerSet, so states between steps are visible too.
    for step in planned["steps"]:
        assert step["groups"] in happened, planned["steps"]
    assert counts(world) == planned["steps"][-1]["groups"]

    # While the set is paused, no rollout begins.
    assert lws.succeed("pause", NAME).out == f"{FULL_NAME} paused\n"
    refused = lws("restart", NAME)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith(f"resume it first (resume {NAME}), then restart it\n")
    now = counts(world)
    world.patch(KIND, "llm", {"spec": {"roles": manifest("server:3")["spec"]["roles"]}})
    paused = "the rollout is paused"
    result = eventually("the rollout waits", lambda: lws("status", NAME), lambda result: paused in result.out)
    assert result.code == 1
    ahead = lws.succeed("plan", NAME, "--steps")
    assert ahead.lines[-1] == "and then waits for slice 0: the rollout is paused"
    stays("no LeaderWorkerSet is created", lambda: counts(world), 1.5)
    assert counts(world) == now
    assert lws.succeed("resume", "dset/llm", "-o", "name").out == f"{FULL_NAME}\n"
    settle(lws)
    assert now.keys().isdisjoint(counts(world))

    assert lws.succeed("restart", NAME).out == f"{FULL_NAME} restarted\n"
    settle(lws)
    (*_, last) = lws.succeed("history", NAME).lines
    assert last.count("annotation kubectl.kubernetes.io/restartedAt added") == 2

    assert (
        lws.succeed("undo", NAME, "--to-revision", "1").lines[0] == f"{FULL_NAME} rolled back to revision 1"
    )
    settle(lws)
    assert counts(world) == {key: {"prefill": 2, "decode": 1}}
    assert lws("diff", NAME).code == 1
    number = lws.succeed("status", NAME, "-o", "json").data["revision"]
    skipped = f"{FULL_NAME} skipped rollback (current template already matches revision {number})\n"
    assert lws.succeed("undo", NAME, "--to-revision", str(number)).out == skipped
    unknown = lws("status", "disaggregatedset/lml")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.endswith("did you mean llm?\n")
