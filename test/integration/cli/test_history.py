"""`lws history` and `lws diff` on a set that has been through a few rollouts."""

from __future__ import annotations

import yaml

from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.groups import labels_of, name_of, revisions_of, settle
from test.harness.manifests import a_set, new_image, rolling
from test.harness.world import SET, World
from test.integration.cli.command import Caller
from test.integration.cli.terminal import in_terminal

CAUSE = "kubernetes.io/change-cause"


def test_history_shows_three_rollouts_and_their_groups(world: World, lws: Caller) -> None:
    world.create(a_set("demo", replicas=3, rolloutStrategy=rolling(maxUnavailable=3)))
    settle(world, "demo")
    for number in (2, 3):
        world.patch(SET, "demo", new_image(f"server:{number}"))
        settle(world, "demo")
    world.patch(SET, "demo", {"metadata": {"annotations": {CAUSE: "canary of server:4"}}})
    strategy = {"spec": {"rolloutStrategy": rolling(partition=2)}}
    world.patch(SET, "demo", {"spec": {**new_image("server:4")["spec"], **strategy["spec"]}})
    settle(world, "demo", updated=1)

    keys = [labels_of(revision)[REVISION_LABEL] for revision in revisions_of(world, "demo")]
    table = [line.split(maxsplit=3) for line in lws.succeed("history", "demo").lines[2:]]
    assert [(number, key) for number, key, _, _ in table] == [(str(n), key) for n, key in enumerate(keys, 1)]
    rows = [" ".join(rest.split()) for *_, rest in table]
    assert rows == [
        "0 <none> the first revision",
        "0 <none> worker template container server image: server:1 → server:2",
        "2 (0-1) <none> worker template container server image: server:2 → server:3",
        "1 (2) canary of server:4 worker template container server image: server:3 → server:4",
    ]

    data = lws.succeed("history", "demo", "-o", "json").data["revisions"]
    assert [revision["groups"] for revision in data] == [[], [], [0, 1], [2]]
    assert [revision["wanted"] for revision in data] == [False, False, False, True]
    assert [revision.get("changeCause") for revision in data] == [None, None, None, "canary of server:4"]

    (revision,) = yaml.safe_load(lws.succeed("history", "demo", "--revision", "2", "-o", "yaml").out)[
        "revisions"
    ]
    assert revision["name"] == name_of(revisions_of(world, "demo")[1])
    worker = revision["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert worker["spec"]["containers"][0]["image"] == "server:2"
    in_full = lws.succeed("history", "demo", "--revision", "3").out
    assert "Groups:       2 (0-1)" in in_full
    assert "image: server:3" in in_full

    difference = lws("diff", "demo", "--from", "1", "--to", "3")
    assert difference.code == 1
    headline, *lines = difference.lines
    assert headline == f"revision 1 ({keys[0]}) → revision 3 ({keys[2]})"
    assert lines == ["worker template container server image: server:1 → server:3"]
    assert lws("diff", "demo").lines[1:] == ["worker template container server image: server:3 → server:4"]
    assert lws.succeed("diff", "demo", "--from", "4", "--to", "4").lines[1:] == [
        "no difference that a pod depends on"
    ]


def test_a_wide_terminal_shows_both_templates_side_by_side(world: World, lws: Caller) -> None:
    world.create(a_set("demo", replicas=1))
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    settle(world, "demo")
    arguments = ["diff", "demo", "-n", world.namespace, "--kubeconfig", str(lws.kubeconfig)]

    code, output = in_terminal(arguments, {}, 160)
    assert code == 1
    (both,) = [
        line for line in output.splitlines() if "server:1" in line and "server:2" in line and "→" not in line
    ]
    assert both.index("server:1") < 80 < both.index("server:2")
    assert "\x1b[31m" in both and "\x1b[32m" in both

    code, output = in_terminal(arguments, {"NO_COLOR": "1"}, 100)
    assert code == 1
    assert output.splitlines()[1:] == ["worker template container server image: server:1 → server:2"]


def test_the_namespace_is_taken_from_the_context(world: World, lws: Caller) -> None:
    world.create(a_set("demo", replicas=0))
    settle(world, "demo")
    kubeconfig = yaml.safe_load(lws.kubeconfig.read_text())
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = world.namespace
    path = lws.kubeconfig.parent / f"{world.namespace}.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(kubeconfig))
    context = kubeconfig["contexts"][0]["name"]
    result = Caller(path, namespace=None)("history", "demo", "--context", context)
    assert result.lines[0] == f"LeaderWorkerSet {world.namespace}/demo"
    nobody = Caller(path, namespace=None)("history", "demo", "--context", "nobody")
    assert nobody.code == 1
    assert "nobody" in nobody.err
