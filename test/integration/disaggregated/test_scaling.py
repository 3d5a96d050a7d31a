"""Scaling takes effect at once, whether an autoscaler, the scaler or the set requests it.

This holds for a settled set and at each step of a rollout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import API_VERSION, KIND, SCALER_KIND
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role, new_roles, roles
from test.harness.disaggregated.standing import SECONDS, Counts, counts, images_of, keys_of, settle
from test.harness.disaggregated.watching import Watch
from test.harness.groups import condition
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import ClusterAccess

Object = dict[str, Any]

METRICS = "external.metrics.k8s.io"
QUEUE = "queuelength"
HPA = "HorizontalPodAutoscaler"


def definition_of_a_metric() -> Object:
    """Return a CRD that acts as a metrics source: the API server lists its objects like the metrics API."""
    names = {"plural": QUEUE, "kind": "ExternalMetricValue", "listKind": "ExternalMetricValueList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    note = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{QUEUE}.{METRICS}", "annotations": note},
        "spec": {"group": METRICS, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def metrics(cluster: ClusterAccess) -> Iterator[None]:
    cluster.kubectl("create", "-f", "-", input=json.dumps(definition_of_a_metric()))
    cluster.kubectl("wait", "--for=condition=Established", "crd", f"{QUEUE}.{METRICS}")
    yield
    cluster.kubectl("delete", "crd", f"{QUEUE}.{METRICS}", "--wait=false")


def set_queue(world: World, length: int) -> None:
    """Set the number of waiting requests that clients of the metrics API read."""
    value = {"metricName": QUEUE, "value": str(length), "timestamp": "2026-01-01T00:00:00Z"}
    metric = {"apiVersion": f"{METRICS}/v1beta1", "kind": "ExternalMetricValue", "metadata": {"name": "now"}}
    world.kubectl("apply", "-f", "-", input={**metric, **value})


def an_autoscaler(name: str, scaler: str) -> Object:
    """Return an autoscaler with one group for each waiting request."""
    target = {"type": "AverageValue", "averageValue": "1"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": HPA,
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": SCALER_KIND, "name": scaler},
            "minReplicas": 1,
            "maxReplicas": 6,
            "metrics": [{"type": "External", "external": {"metric": {"name": QUEUE}, "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def scale(world: World, scaler: str, replicas: int) -> None:
    """Scale as an autoscaler does."""
    path = f"{world.path(SCALER_KIND, scaler)}/scale"
    world.api.merge(path, {"spec": {"replicas": replicas}})


def total(counted: Counts, role: str) -> int:
    return sum(of.get(role, 0) for by_key in counted.values() for of in by_key.values())


def test_an_autoscaler_scales_a_role_before_and_during_a_rollout(world: World, metrics: None) -> None:
    watch = Watch(world)
    set_queue(world, 3)
    world.create(a_disaggregated_set("pd", roles(2, 1)))
    settle(world, "pd")
    # From then on, the number in the spec is ignored.
    external = [a_role("prefill", 2), a_role("decode", None)]
    world.patch(KIND, "pd", new_roles(external))
    eventually("the scaler exists", lambda: world.find(SCALER_KIND, "pd-decode"))
    assert world.get(SCALER_KIND, "pd-decode")["spec"]["replicas"] == 1
    world.create(an_autoscaler("pd", "pd-decode"))
    eventually(
        "the role is scaled up", lambda: total(counts(world, "pd"), "decode"), lambda now: now == 3, SECONDS
    )
    settle(world, "pd")
    (old,) = counts(world, "pd")[0]

    world.patch(KIND, "pd", new_roles([a_role("prefill", 2, "server:2"), a_role("decode", None, "server:2")]))
    eventually("the rollout has begun", lambda: watch.counts("pd")[0], lambda now: len(now) == 2, SECONDS)
    set_queue(world, 1)
    eventually("the rollout is over", lambda: watch.counts("pd")[0], lambda now: old not in now, SECONDS)
    eventually(
        "the role is scaled down", lambda: total(counts(world, "pd"), "decode"), lambda now: now == 1, SECONDS
    )
    settle(world, "pd")
    watch.judge("pd")
    scaling = condition(world.get(HPA, "pd"), "ScalingActive")
    assert (scaling["status"], scaling["reason"]) == ("True", "ValidMetricFound"), scaling


SCALES = [(4, 5), (1, 1), (3, 6), (5, 2), (2, 3)]
"""Desired groups of prefill, by the set, and of decode, by its scaler."""
MOST_SCALES = 6


@pytest.mark.parametrize("slices", [1, 3])
def test_scaling_takes_effect_at_each_step_of_a_rollout(world: World, slices: int) -> None:
    watch = Watch(world)
    world.create(a_disaggregated_set("pd", roles(2, None), slices=slices))
    eventually("the scaler exists", lambda: world.find(SCALER_KIND, "pd-decode"))
    scale(world, "pd-decode", 3 * slices)
    settle(world, "pd")
    (old,) = keys_of(world, "pd")
    strategy = {"rolloutStrategy": {"maxUpdatingSlices": 1}} if slices > 1 else {}
    world.patch(KIND, "pd", new_roles(roles(2, None, "server:2"), **strategy))
    seen: list[Counts] = []

    def scale_at_each_step() -> bool:
        now = watch.counts("pd")
        if now not in seen and len(seen) < MOST_SCALES:
            seen.append(now)
            prefill, decode = SCALES[len(seen) % len(SCALES)]
            scale(world, "pd-decode", decode * slices)
            world.patch(KIND, "pd", new_roles(roles(prefill, None, "server:2")))
        return all(old not in of_slice for of_slice in now.values())

    eventually("the rollout is over", scale_at_each_step, bool, SECONDS)
    scale(world, "pd-decode", 2 * slices + 1)
    world.patch(KIND, "pd", new_roles(roles(3, None, "server:2")))
    settle(world, "pd")
    assert len(seen) > 3, seen
    watch.judge("pd")
    counted = counts(world, "pd")
    assert [sum(of["decode"] for of in counted[index].values()) for index in counted] == [3, 2, 2][:slices]
    assert images_of(world, "pd") == {"prefill": {"server:2"}, "decode": {"server:2"}}


@pytest.mark.parametrize(("kind", "name"), [(KIND, "pd"), (SCALER_KIND, "pd-prefill")])
def test_an_emptied_or_edited_status_is_repaired_at_once(world: World, kind: str, name: str) -> None:
    """Without the selector in a scaler's status, autoscalers do nothing."""
    world.create(a_disaggregated_set("pd", [a_role("prefill", None), a_role("decode", 1)]))
    settle(world, "pd")

    def recomputed_status() -> Object:
        status = world.get(kind, name).get("status") or {}
        true = {
            condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"
        }
        return {
            **{field: value for field, value in status.items() if field != "lastProgressTime"},
            "conditions": true,
        }

    expected = recomputed_status()
    selector = expected["selector"]
    for edit in (None, {"selector": None}, {"observedGeneration": 0, "selector": "a=b"}):
        patch = json.dumps({"status": edit})
        world.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)
        eventually(f"the status is repaired after {patch}", recomputed_status, expected.__eq__)
    assert selector and recomputed_status()["selector"] == selector


def test_a_role_gets_and_loses_its_scaler_before_and_during_a_rollout(world: World) -> None:
    watch = Watch(world)
    world.create(a_disaggregated_set("pd", roles(2, 3)))
    settle(world, "pd")
    world.patch(KIND, "pd", new_roles([a_role("prefill", 2), a_role("decode", None)]))
    scaler = eventually("the scaler exists", lambda: world.find(SCALER_KIND, "pd-decode"))
    assert scaler is not None and scaler["spec"]["replicas"] == 3, "the scaler keeps the number of groups"
    scale(world, "pd-decode", 4)
    settle(world, "pd")

    world.patch(KIND, "pd", new_roles(roles(2, 2, "server:2")))
    eventually("the scaler is deleted", lambda: world.find(SCALER_KIND, "pd-decode"), lambda obj: obj is None)
    eventually("the rollout has begun", lambda: watch.counts("pd")[0], lambda now: len(now) == 2, SECONDS)
    world.patch(KIND, "pd", new_roles([a_role("prefill", None, "server:2"), a_role("decode", 2, "server:2")]))
    eventually("the other role has a scaler", lambda: world.find(SCALER_KIND, "pd-prefill"))
    settle(world, "pd")
    (key,) = counts(world, "pd")[0]
    assert counts(world, "pd") == {0: {key: {"prefill": 2, "decode": 2}}}
    watch.judge("pd")
