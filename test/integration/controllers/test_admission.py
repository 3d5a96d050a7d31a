"""The API server and the webhooks accept, reject and default sets, as users see it.

The rules themselves are tested one by one without a cluster.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import API_VERSION, KIND, NAME_LABEL, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.harness.groups import condition
from test.harness.manifests import a_set, rolling, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError, CommandError

TEMPLATE = "spec.leaderWorkerTemplate"
BUDGET = "spec.rolloutStrategy.rollingUpdateConfiguration"
SUBGROUP = f"{TEMPLATE}.subGroupPolicy.subGroupSize"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
FORBIDDEN, INVALID = 403, 422


@pytest.fixture(scope="module")
def world(shared_world: World) -> World:
    """One namespace for all tests, because only empty sets are stored."""
    return shared_world


def empty(name: str, **more: Any) -> dict[str, Any]:
    """Return a set without groups, so that nothing but admission happens."""
    return a_set(name, replicas=0, **more)


def grouped(size: int, **policy: Any) -> dict[str, Any]:
    return a_set("bad", replicas=0, size=size, group={"subGroupPolicy": policy})


def refusal(world: World, manifest: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        world.create(manifest)
    return caught.value


def test_defaults_are_filled_in(world: World) -> None:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "plain"},
        "spec": {
            "replicas": 0,
            "leaderWorkerTemplate": {
                "workerTemplate": {
                    "spec": {"containers": [{"name": "c", "image": "a:1", "ports": [{"containerPort": 80}]}]}
                }
            },
        },
    }
    spec = world.create(manifest)["spec"]
    (container,) = spec["leaderWorkerTemplate"].pop("workerTemplate")["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert spec == {
        "replicas": 0,
        "groupIdentity": "Ordinal",
        "groupReplacementPolicy": "PostTermination",
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "Shared"},
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 1, "maxSurge": 0},
        },
        "leaderWorkerTemplate": {"size": 1, "restartPolicy": "RecreateGroupOnPodRestart"},
    }


def test_deprecated_restart_policy_is_replaced(world: World) -> None:
    stored = world.create(empty("former", group={"restartPolicy": "Default"}))
    assert stored["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "None"


BAD = [
    pytest.param(
        a_set("bad", size=0),
        f"{TEMPLATE}.size: Invalid value: 0: size must be equal or greater than 1",
        id="size",
    ),
    pytest.param(
        a_set("bad", replicas=1_000_000, size=2148),
        "spec.replicas: Invalid value: 1000000: "
        "the product of replicas and worker replicas must not exceed 2147483647",
        id="product",
    ),
    pytest.param(
        a_set("bad", rolloutStrategy=rolling(maxUnavailable=-1)),
        f"{BUDGET}.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
        id="negative maxUnavailable",
    ),
    pytest.param(
        a_set("bad", rolloutStrategy=rolling(maxUnavailable="101%")),
        f'{BUDGET}.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        id="maxUnavailable above 100%",
    ),
    pytest.param(
        a_set("bad", rolloutStrategy=rolling(maxSurge="a lot")),
        f'[{BUDGET}.maxSurge: Invalid value: "a lot": {PERCENT}, '
        f'{BUDGET}.maxSurge: Invalid value: "a lot": invalid value]',
        id="two errors",
    ),
    pytest.param(
        a_set("bad", rolloutStrategy=rolling(partition=-1)),
        f"{BUDGET}.partition: Invalid value: -1: must be greater than or equal to 0",
        id="partition",
    ),
    pytest.param(
        a_set("bad", rolloutStrategy=rolling(maxUnavailable="25%")),
        f'{BUDGET}.maxUnavailable: Invalid value: "25%": must not be 0 when `maxSurge` is 0',
        id="empty budget",
    ),
    pytest.param(grouped(4), f"{SUBGROUP}: Required value: subGroupSize is required", id="{}"),
    pytest.param(
        grouped(4, subGroupSize=0),
        f"{SUBGROUP}: Invalid value: 0: subGroupSize must be equal or greater than 1",
        id="subGroupSize 0",
    ),
    pytest.param(
        grouped(4, subGroupSize=2, subGroupPolicyType="LeaderExcluded"),
        f"{SUBGROUP}: Invalid value: 2: size-1 must be divisible by subGroupSize when using LeaderExcluded",
        id="LeaderExcluded",
    ),
    pytest.param(
        a_set("bad", annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}),
        f"metadata.annotations.{SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION}: "
        'Invalid value: "rack": cannot have subgroup-exclusive-topology without subGroupSize set',
        id="topology without subgroups",
    ),
]


@pytest.mark.parametrize(("manifest", "message"), BAD)
def test_an_invalid_set_is_rejected_with_all_errors(
    world: World, manifest: dict[str, Any], message: str
) -> None:
    refused = refusal(world, manifest)
    assert refused.status == FORBIDDEN
    prefix = 'admission webhook "vleaderworkerset.kb.io" denied the request: '
    assert str(refused) == f"{FORBIDDEN}: {prefix}{message}"


SCHEMA = [
    pytest.param(a_set("bad", replicas=-1), "spec.replicas", id="replicas"),
    pytest.param(a_set("bad", startupPolicy="Later"), "spec.startupPolicy", id="startupPolicy"),
    pytest.param(
        a_set("bad", group={"restartPolicy": "Always"}), f"{TEMPLATE}.restartPolicy", id="restartPolicy"
    ),
    pytest.param(
        a_set(
            "bad",
            workers={
                "spec": {
                    "containers": [{"name": "c", "image": "i", "env": [{"name": "X", "value": "1"}] * 2}]
                }
            },
        ),
        "env[1]: Duplicate value",
        id="duplicate variable",
    ),
]


@pytest.mark.parametrize(("manifest", "words"), SCHEMA)
def test_schema_violations_are_rejected_as_invalid(
    world: World, manifest: dict[str, Any], words: str
) -> None:
    refused = refusal(world, manifest)
    assert refused.status == INVALID
    assert words in str(refused)


def test_kubectl_prints_the_reason(world: World) -> None:
    with pytest.raises(CommandError) as caught:
        world.kubectl("apply", "-f", "-", input=a_set("bad", size=0))
    assert "Error from server (Forbidden)" in str(caught.value)
    assert "size must be equal or greater than 1" in str(caught.value)


def test_names_too_long_for_pod_names_are_rejected(world: World) -> None:
    refused = refusal(world, a_set("n" * 63, replicas=1, size=1))
    match = re.search(r"has 63 characters, at most (\d+) are possible with replicas 1", str(refused))
    assert match is not None, str(refused)
    room = int(match[1])
    assert refusal(world, a_set("n" * (room + 1), replicas=1, size=1)).status == FORBIDDEN
    world.create(a_set("n" * room, replicas=0, size=1))
    world.kubectl("delete", "lws", "n" * room)
    assert refusal(world, a_set("Not-A-Name")).status in (FORBIDDEN, INVALID)
    assert refusal(world, a_set("1-starts-with-a-digit", replicas=0)).status == FORBIDDEN


def test_scaling_beyond_the_name_limit_sets_a_condition(world: World) -> None:
    """The scale subresource bypasses the webhook."""
    match = re.search(r"at most (\d+) are", str(refusal(world, a_set("n" * 63, replicas=1, size=2))))
    assert match is not None
    name = "s" * int(match[1])
    world.create(a_set(name, replicas=0, size=2))
    with pytest.raises(ApiError, match="are possible with replicas 11"):
        world.patch(SET, name, scaled_to(11))
    world.kubectl("scale", "lws", name, "--replicas=11")
    failure = eventually("the condition is set", lambda: condition(world.get(SET, name), "ReplicaFailure"))
    assert (failure["status"], failure["reason"]) == ("True", "NameTooLong")
    world.kubectl("scale", "lws", name, "--replicas=0")
    eventually(
        "the condition is cleared",
        lambda: condition(world.get(SET, name), "ReplicaFailure"),
        lambda now: now.get("status") != "True",
    )


UPDATES = [
    pytest.param({"subGroupSize": 2}, {"subGroupSize": 1}, "field is immutable", id="changed"),
    pytest.param(
        None, {"subGroupSize": 2}, "cannot enable subGroupSize after the lws is already created", id="added"
    ),
    pytest.param({"subGroupSize": 2}, None, "cannot remove subGroupSize after enabled", id="removed"),
]


@pytest.mark.parametrize(("before", "after", "message"), UPDATES)
def test_subgroups_are_immutable(
    world: World, before: dict[str, Any] | None, after: dict[str, Any] | None, message: str, request: Any
) -> None:
    name = f"sub-{request.node.callspec.id}"
    world.create(a_set(name, replicas=0, size=4, group={"subGroupPolicy": before} if before else None))
    with pytest.raises(ApiError) as caught:
        world.patch(SET, name, {"spec": {"leaderWorkerTemplate": {"subGroupPolicy": after}}})
    assert caught.value.status == FORBIDDEN
    assert message in str(caught.value)


def test_other_fields_are_mutable(world: World) -> None:
    world.create(empty("open"))
    spec = {
        "startupPolicy": "LeaderReady",
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        "rolloutStrategy": rolling(maxUnavailable="50%", maxSurge=1, partition=1),
    }
    template = {"size": 3, "restartPolicy": "None"}
    stored = world.patch(SET, "open", {"spec": {**spec, "leaderWorkerTemplate": template}})["spec"]
    assert stored["leaderWorkerTemplate"].items() >= template.items()
    assert stored.items() >= spec.items()


def test_a_dry_run_shows_defaults_and_stores_nothing(world: World) -> None:
    output = world.kubectl("create", "--dry-run=server", "-o=json", "-f", "-", input=a_set("dry"))
    assert '"subdomainPolicy": "Shared"' in output
    assert world.find(SET, "dry") is None
    with pytest.raises(CommandError, match="Forbidden"):
        world.kubectl("create", "--dry-run=server", "-f", "-", input=a_set("dry", size=0))


def test_a_pod_with_the_name_label_needs_a_size(world: World) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {NAME_LABEL: "nobody"}},
        "spec": {"containers": [{"name": "c", "image": "a:1"}]},
    }
    refused = refusal(world, pod)
    assert refused.status == FORBIDDEN
    assert "size annotation is unexpectedly missing for pod stray" in str(refused)
    pod["metadata"] = {"name": "stray"}
    assert "env" not in world.create(pod)["spec"]["containers"][0]
