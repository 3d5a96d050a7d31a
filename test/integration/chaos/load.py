"""Keep rollouts under way while faults happen: the images of sets change all the time."""

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

# Users who change sets meet the same failures: webhooks that do not answer, an API server that is away.
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
"""One group at a time, on warm nodes; one on top at a time, whose pods end together; several at a time, in
waves, back to their nodes; the only one there is, template and turn at once, whose pods must return; groups
with keys, whose rollouts a Deployment paces.
"""
MOST_HASH_GROUPS = {"hashed": 4}
"""How many groups may have nodes at a time, those that terminate included."""
OF_ANOTHER = "elsewhere"
PAIR = "pair"
"""A DisaggregatedSet of two roles, one group on top at a time."""


def create_fleet(world: World, *names: str) -> list[str]:
    """The sets of these names, or all, at rest."""
    wanted = names or tuple(FLEET)
    for name in wanted:
        world.create(FLEET[name])
    settle(world, *wanted)
    return list(wanted)


def create_pair(world: World) -> str:
    """The DisaggregatedSet, at rest."""
    world.create(a_disaggregated_set(PAIR, roles(3, 2)))
    standing.settle(world, PAIR)
    return PAIR


def create_of_another(world: World) -> str:
    """A set of another controller, which has made its leaders: they are labelled as those of any set."""
    lws = world.create(a_set(OF_ANOTHER, replicas=3, size=1, managedBy="example.com/another"))
    labels = {NAME_LABEL: OF_ANOTHER, WORKER_INDEX_LABEL: "0"}
    template = pod_template(annotations={SIZE_ANNOTATION: "1"})
    template["metadata"]["labels"] = labels
    owner = {"apiVersion": lws["apiVersion"], "kind": SET, "name": OF_ANOTHER, "uid": lws["metadata"]["uid"]}
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": OF_ANOTHER,
                "labels": {NAME_LABEL: OF_ANOTHER},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "replicas": 3,
                "serviceName": OF_ANOTHER,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
    )
    eventually("its leaders run", lambda: len(pods_of(world, OF_ANOTHER)), lambda count: count == 3)
    return OF_ANOTHER


@contextmanager
def rolling_out(world: World, names: Sequence[str]) -> Iterator[None]:
    """A new image for each of the sets as soon as the last one has arrived everywhere."""
    with _changing(world, (name if is_at_rest(world, name) else "" for name in itertools.cycle(names)), 0.2):
        yield


@contextmanager
def changing_its_mind(
    world: World, names: Sequence[str], dice: random.Random, seconds: float
) -> Iterator[None]:
    """A new image for one of the sets every so often, whether the last one has arrived or not.

    A group that is still on its way to an image that nobody wants any more counts as broken: replacing it
    costs nothing, and so the groups that serve may be one fewer than the budget says.
    """
    with _changing(world, (dice.choice(names) for _ in itertools.count()), seconds):
        yield


@contextmanager
def _changing(world: World, turns: Iterator[str], seconds: float) -> Iterator[None]:
    """turns: whose turn it is, "" for nobody's."""
    images = (f"server:{number}" for number in itertools.count(2))

    def turn() -> None:
        if name := next(turns):
            change(world, name, next(images))

    with repeated(turn, seconds):
        yield


def is_at_rest(world: World, name: str) -> bool:
    """Nothing of the set is on its way."""
    try:
        return not (standing.unsettled if name == PAIR else unsettled)(world, name)
    except FAILURES:
        return False


def change(world: World, name: str, image: str) -> bool:
    """Ask for another image; tells whether that was heard."""
    try:
        if name == PAIR:
            world.patch(DISAGGREGATED_SET, name, new_roles(roles(3, 2, image)))
        else:
            world.patch(SET, name, new_image(image))
    except FAILURES:
        return False
    return True


def roll_to_the_end(world: World, names: Sequence[str], image: str, seconds: float = 300.0) -> None:
    """Wait until all is at rest, ask for one last image, and wait until every group has it."""
    settle_all(world, names, seconds)
    for name in names:
        eventually(f"{name} is asked for {image}", lambda: change(world, name, image))  # noqa: B023
    settle_all(world, names, seconds)
    for name in names:
        if name == PAIR:
            assert set().union(*standing.images_of(world, name).values()) == {image}
        else:
            containers = (pod["spec"]["containers"] for pod in pods_of(world, name))
            assert {each["image"] for each in itertools.chain.from_iterable(containers)} == {image}


def settle_all(world: World, names: Sequence[str], seconds: float) -> None:
    """Wait until all is at rest."""
    settle(world, *(name for name in names if name != PAIR), seconds=seconds)
    standing.settle(world, *(name for name in names if name == PAIR), seconds=seconds)


def floors_of(names: Sequence[str]) -> dict[str, int]:
    """How many groups of each have to serve, always. Those with keys are the Deployment controller's."""
    floors = {"one": 3, "surging": 2, "wide": 3, "sole": 0}
    return {name: floors[name] for name in names if name not in MOST_HASH_GROUPS}
