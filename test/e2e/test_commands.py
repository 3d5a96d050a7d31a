"""kubectl shows, explains, scales and waits for sets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from test.harness.groups import settle
from test.harness.manifests import a_set
from test.harness.product import running_product
from test.harness.waiting import eventually
from test.harness.world import World, a_namespace
from tools.localcluster import ClusterAccess


@pytest.fixture(scope="module")
def world(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A namespace with the settled set `shown`."""
    with (
        running_product(cluster, tmp_path_factory.mktemp("commands")),
        a_namespace(cluster, "commands") as world,
    ):
        world.kubectl("apply", "-f", "-", input=a_set("shown", replicas=2))
        settle(world, "shown")
        yield world


def test_get_shows_ready_desired_and_updated_groups(world: World) -> None:
    header, row = world.kubectl("get", "lws").splitlines()
    assert header.split() == ["NAME", "READY", "DESIRED", "UP-TO-DATE", "AGE"]
    assert row.split()[:4] == ["shown", "2", "2", "2"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "lws.spec",
            ["replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig"],
        ),
        ("lws.spec.leaderWorkerTemplate", ["size", "restartPolicy", "RecreateGroupOnPodRestart"]),
        ("lws.spec.rolloutStrategy.rollingUpdateConfiguration", ["maxUnavailable", "maxSurge", "partition"]),
        ("lws.status", ["readyReplicas", "conditions"]),
    ],
)
def test_explain_describes_every_field(world: World, path: str, words: list[str]) -> None:
    output = world.kubectl("explain", path)
    assert "DESCRIPTION:\n    <empty>" not in output
    assert [word for word in words if word not in output] == []
    # Every field has a description.
    fields = output.partition("FIELDS:")[2]
    assert "<no description>" not in fields


def test_scale_changes_the_number_of_groups(world: World) -> None:
    world.kubectl("scale", "lws", "shown", "--current-replicas=2", "--replicas=3")
    settle(world, "shown")
    world.kubectl("scale", "lws/shown", "--replicas=2")
    settle(world, "shown")


def test_wait_waits_for_the_condition(world: World) -> None:
    world.kubectl("apply", "-f", "-", input=a_set("awaited", replicas=1))
    world.kubectl("wait", "lws/awaited", "--for=condition=Available", "--timeout=170s")
    settle(world, "awaited")


def test_events_are_found_by_the_name_of_the_set(world: World) -> None:
    output = eventually(
        "the last Event exists",
        lambda: world.kubectl("events", "--for", "lws/shown"),
        lambda output: "All replicas are ready, with 2 groups ready of total 2 groups" in output,
    )
    assert "Created leader statefulset shown" in output


def test_a_second_apply_of_the_same_manifest_changes_nothing(world: World) -> None:
    manifest = a_set("shown", replicas=2)
    before = json.loads(world.kubectl("get", "lws", "shown", "-o", "json"))["metadata"]
    assert world.kubectl("apply", "-f", "-", input=manifest).strip().endswith("unchanged")
    after = json.loads(world.kubectl("get", "lws", "shown", "-o", "json"))["metadata"]
    # The status may be written meanwhile.
    assert (before["generation"], before["annotations"]) == (after["generation"], after["annotations"])
