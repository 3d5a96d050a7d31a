"""Keep rollouts in progress while faults happen: the images of sets change all the time."""

from __future__ import annotations

import http.client
import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lws_api.disaggregatedset.v1 import KIND as DISAGGREGATED_SET
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import NAME_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL
from test.harness.disaggregated import standing
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.groups import pods_of, settle, unsettled
from test.harness.manifests import a_set, new_image, pod_template, rolling
from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError

Object = dict[str, Any]

# Users who change sets meet the same failures: webhooks without an answer, an unreachable API server.
FAILURES = (ApiError, OSError, http.client.HTTPException)

FLEET: dict[str, Object] = {
    "one": a_set("one", replicas=4, size=2, rolloutStrategy={"prewarm": {"deadlineSeconds": 20}}),
    "surging": a_set(
        "surging",
        replicas=2,
        size=2,
        podTerminationPolicy="Parallel",
        rolloutStrategy=rolling(maxUnavailable=0, maxSurge=1),
    ),
    "wide": a_set(
        "wide",
        replicas=5,
        size=1,
        annotations={NODE_RETURN_ANNOTATION: "Preferred"},
        startStrategy={"seedGroups": 2},
        rolloutStrategy=rolling(maxUnavailable=2, maxSurge=1),
    ),
    "sole": a_set("sole", replicas=1, size=3, annotations={NODE_RETURN_ANNOTATION: "Required"}),
    "hashed": a_set(
        "hashed",
        replicas=3,
        size=2,
        groupIdentity="Hash",
        rolloutStrategy=rolling(maxUnavailable=1, maxSurge=1),
    ),
}
"""The sets, by the way in which they roll out.

one: one group at a time, on warm nodes. surging: one surge group at a time, whose pods terminate together.
wide: several groups at a time in waves, back to their nodes. sole: a single group, whose template and
partition change at once and whose pods must return. hashed: Hash groups, whose rollouts a Deployment paces.
"""
MOST_HASH_GROUPS = {"hashed": 4}
"""How many groups may have nodes at a time, terminating ones included."""
FOREIGN_SET = "elsewhere"
PAIR = "pair"
"""A DisaggregatedSet of two roles, with one surge group at a time."""


def create_fleet(world: World, *names: str) -> list[str]:
    """Create the sets of these names, or all, and wait until they are settled."""
    selected = names or tuple(FLEET)
    for name in selected:
        world.create(FLEET[name])
    settle(world, *selected)
    return list(selected)


def create_pair(world: World) -> str:
    """Create the DisaggregatedSet, and wait until it is settled."""
    world.create(a_disaggregated_set(PAIR, roles(3, 2)))
    standing.settle(world, PAIR)
    return PAIR


def create_foreign_set(world: World) -> str:
    """Create a set of another controller with its leaders, which have the same labels as in any set."""
    lws = world.create(a_set(FOREIGN_SET, replicas=3, size=1, managedBy="example.com/another"))
    labels = {NAME_LABEL: FOREIGN_SET, WORKER_INDEX_LABEL: "0"}
    template = pod_template(annotations={SIZE_ANNOTATION: "1"})
    template["metadata"]["labels"] = labels
    owner = {"apiVersion": lws["apiVersion"], "kind": SET, "name": FOREIGN_SET, "uid": lws["metadata"]["uid"]}
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": FOREIGN_SET,
                "labels": {NAME_LABEL: FOREIGN_SET},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "replicas": 3,
                "serviceName": FOREIGN_SET,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
    )
    eventually("all leaders run", lambda: len(pods_of(world, FOREIGN_SET)), lambda count: count == 3)
    return FOREIGN_SET


@contextmanager
def rolling_out(world: World, names: Sequence[str]) -> Iterator[None]:
    """Give each of the sets a new image as soon as all groups have the last one."""
    with _changing(world, (name if is_at_rest(world, name) else "" for name in itertools.cycle(names)), 0.2):
        yield


@contextmanager
def changing_images(
    world: World, names: Sequence[str], dice: random.Random, seconds: float
) -> Iterator[None]:
    """Give a random set a new image at intervals, whether or not all groups have the last one.

    A group that is still starting with an outdated image counts as broken. Replacing it costs nothing, so one
    group fewer than the budget says may serve.
    """
    with _changing(world, (dice.choice(names) for _ in itertools.count()), seconds):
        yield


@contextmanager
def _changing(world: World, turns: Iterator[str], seconds: float) -> Iterator[None]:
    """Change images during the block. turns: the set to change each time, or "" for none."""
    images = (f"server:{number}" for number in itertools.count(2))

    def turn() -> None:
        if name := next(turns):
            change(world, name, next(images))

    with repeated(turn, seconds):
        yield


def is_at_rest(world: World, name: str) -> bool:
    """Report whether the set is settled."""
    try:
        return not (standing.unsettled if name == PAIR else unsettled)(world, name)
    except FAILURES:
        return False


def change(world: World, name: str, image: str) -> bool:
    """Request another image, and report whether the request succeeded."""
    try:
        if name == PAIR:
            world.patch(DISAGGREGATED_SET, name, new_roles(roles(3, 2, image)))
        else:
            world.patch(SET, name, new_image(image))
    except FAILURES:
        return False
    return True


def roll_out_completely(world: World, names: Sequence[str], image: str, seconds: float = 300.0) -> None:
    """Wait until all is settled, request one last image, and wait until every group has it."""
    settle_all(world, names, seconds)
    for name in names:
        eventually(f"{name} requests {image}", lambda: change(world, name, image))  # noqa: B023
    settle_all(world, names, seconds)
    for name in names:
        if name == PAIR:
            assert set().union(*standing.images_of(world, name).values()) == {image}
        else:
            containers = (pod["spec"]["containers"] for pod in pods_of(world, name))
            assert {container["image"] for container in itertools.chain.from_iterable(containers)} == {image}


def settle_all(world: World, names: Sequence[str], seconds: float) -> None:
    """Wait until all is settled."""
    settle(world, *(name for name in names if name != PAIR), seconds=seconds)
    standing.settle(world, *(name for name in names if name == PAIR), seconds=seconds)


def floors_of(names: Sequence[str]) -> dict[str, int]:
    """Return how many groups of each set must serve at any time.

    Hash groups are not included, because the Deployment controller replaces them.
    """
    floors = {"one": 3, "surging": 2, "wide": 3, "sole": 0}
    return {name: floors[name] for name in names if name not in MOST_HASH_GROUPS}
