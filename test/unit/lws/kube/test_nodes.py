"""lws.kube.nodes: pods that stay on lost nodes, when to check again, and why a node takes no pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lws.kube.nodes import (
    OUT_OF_SERVICE_TAINT,
    NodeLosses,
    NodeLossPolicy,
    loss_of,
    waits_for_kubelet,
    why_unfit,
)
from lws.kube.pods import REQUIRED

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POLICY = NodeLossPolicy(after=timedelta(minutes=5))


def at(seconds: float) -> str:
    """Return the time `seconds` before now in RFC 3339."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(overdue: float | None = 60, grace: int | None = 30, node: str = "n", name: str = "demo-0") -> Any:
    """Return a pod.

    overdue: seconds since its grace period ended, or None for a pod that is not deleted.
    """
    metadata: dict[str, Any] = {"name": name}
    if overdue is not None:
        metadata["deletionTimestamp"] = at(overdue)
    if grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}}


def node(ready: str | None = "Unknown", away: float = 400, taint: str = "", created: float = 9999) -> Any:
    """Return a node. away: seconds since its Ready condition changed."""
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at(away)}] if ready else []
    return {
        "metadata": {"name": "n", "creationTimestamp": at(created)},
        "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]} if taint else {},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("stored_node", "why"),
    [
        pytest.param(node("True"), None, id="ready"),
        pytest.param(node("True", taint=OUT_OF_SERVICE_TAINT), None, id="ready with taints"),
        pytest.param(node("Unknown"), "has not been ready since 2026-03-01T11:53:20Z", id="silent"),
        pytest.param(node("False"), "has not been ready since 2026-03-01T11:53:20Z", id="not ready"),
        pytest.param(node(None), "has not been ready since 2026-03-01T09:13:21Z", id="never reported"),
        pytest.param({"metadata": {}}, "is not ready", id="no conditions"),
        pytest.param(node(taint=OUT_OF_SERVICE_TAINT), "is tainted as out of service", id="out of service"),
        pytest.param(None, "does not exist any more", id="deleted"),
    ],
)
def test_reasons_of_lost_nodes(stored_node: Any, why: str | None) -> None:
    loss = loss_of("n", stored_node)
    assert (loss.why if loss else None) == why


@pytest.mark.parametrize(
    ("stuck_pod", "waits"),
    [
        pytest.param(pod(overdue=None, grace=None), False, id="not being deleted"),
        pytest.param(pod(), True, id="deleted"),
        pytest.param(pod(grace=0), False, id="ended, and held by finalizers"),
        pytest.param(pod(grace=None), False, id="no kubelet is involved"),
    ],
)
def test_pods_that_wait_for_their_kubelet(stuck_pod: Any, waits: bool) -> None:
    assert waits_for_kubelet(stuck_pod) is waits


CASES = [
    pytest.param(pod(), node(), True, id="overdue on a silent node"),
    pytest.param(pod(), node("False"), True, id="overdue on a node that is not ready"),
    pytest.param(pod(overdue=0), node(away=300), True, id="just now both are over"),
    pytest.param(pod(overdue=-1), node(), False, id="within its grace period"),
    pytest.param(pod(overdue=None, grace=None), node(), False, id="not being deleted"),
    pytest.param(pod(grace=0), node(), False, id="terminated by its kubelet"),
    pytest.param(pod(node=""), node(), False, id="never scheduled"),
    pytest.param(pod(), node("True"), False, id="the node answers"),
    pytest.param(pod(overdue=600), node(away=299), False, id="the node has not been away for long"),
    pytest.param(pod(overdue=299), None, False, id="Kubernetes may still collect it"),
    pytest.param(pod(overdue=300), None, True, id="Kubernetes has not collected it"),
    pytest.param(pod(overdue=299), node(taint=OUT_OF_SERVICE_TAINT), False, id="out of service for a while"),
    pytest.param(pod(overdue=300), node(taint=OUT_OF_SERVICE_TAINT), True, id="out of service for long"),
]


@pytest.mark.parametrize(("pod", "node", "is_held"), CASES)
def test_pods_stuck_on_a_lost_node(pod: Any, node: Any, is_held: bool) -> None:
    held = NodeLosses((pod,), {"n": node}, NOW, POLICY).stuck_pods()
    assert [stuck.pod for stuck in held] == ([pod] if is_held else [])


def test_no_pod_is_stuck_on_an_unknown_node() -> None:
    assert NodeLosses((pod(),), {}, NOW, POLICY).stuck_pods() == ()


def test_pods_on_deleted_nodes_are_left_to_the_garbage_collector() -> None:
    nodes = {"silent": node(), "gone": None}
    pods = pod(600, node="silent", name="b"), pod(600, node="gone", name="a")
    held = NodeLosses(pods, nodes, NOW, POLICY).stuck_pods()
    assert [(stuck.pod["metadata"]["name"], stuck.loss.is_collected) for stuck in held] == [
        ("a", True),
        ("b", False),
    ]


@pytest.mark.parametrize(
    ("pods", "nodes", "seconds"),
    [
        pytest.param([], {}, None, id="no pods"),
        pytest.param(
            [pod(overdue=None, grace=None), pod(grace=0)], {}, None, id="no pod waits for a kubelet"
        ),
        pytest.param([pod(overdue=-20), pod(overdue=-50)], {}, 20, id="when the first grace period ends"),
        pytest.param([pod()], {"n": node("True")}, 30, id="a node that answers may fall silent"),
        pytest.param([pod()], {}, 30, id="a node that could not be read"),
        pytest.param([pod()], {"n": node(away=290)}, 10, id="when the node has been away for long enough"),
        pytest.param([pod()], {"n": node(away=20)}, 30, id="a deletion may come earlier"),
        pytest.param([pod()], {"n": node()}, 30, id="a stuck pod until its deletion"),
    ],
)
def test_requeue_after_the_timeout_of_a_node(
    pods: list[Any], nodes: dict[str, Any], seconds: float | None
) -> None:
    assert NodeLosses(tuple(pods), nodes, NOW, POLICY).recheck_after() == seconds


# --- Nodes that a pod could run on --------------------------------------------------------------------------


def ready_node(*taints: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": {"pool": "a", "gpus": "8"}},
        "spec": {**spec, "taints": list(taints)},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


GPU = {"key": "gpu", "value": "h100", "effect": "NoSchedule"}
ELSEWHERE = "does not match the node selector or affinity of the pod"


@pytest.mark.parametrize(
    ("stored_node", "why"),
    [
        (None, "does not exist any more"),
        (node("Unknown"), "has not been ready since 2026-03-01T11:53:20Z"),
        (ready_node(unschedulable=True), "is cordoned"),
        (ready_node({**GPU, "effect": "PreferNoSchedule"}), ""),
        (ready_node(GPU), "has the taint gpu"),
        (ready_node(), ""),
    ],
)
def test_reasons_why_a_node_is_unfit(stored_node: Any, why: str) -> None:
    assert why_unfit("n", stored_node, {}) == why


@pytest.mark.parametrize(
    ("toleration", "helps"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "h100", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "b200"}, False),
        ({"key": "tpu", "operator": "Exists"}, False),
        ({"value": "h100"}, False),
    ],
)
def test_tolerations_of_a_taint(toleration: dict[str, str], helps: bool) -> None:
    assert (why_unfit("n", ready_node(GPU), {"tolerations": [toleration]}) == "") == helps


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (expression("pool", "In", "a", "b"), True),
        (expression("pool", "In", "b"), False),
        (expression("pool", "NotIn", "a"), False),
        (expression("disk", "NotIn", "a"), True),
        (expression("pool", "Exists"), True),
        (expression("disk", "Exists"), False),
        (expression("disk", "DoesNotExist"), True),
        (expression("pool", "DoesNotExist"), False),
        (expression("gpus", "Gt", "7"), True),
        (expression("gpus", "Gt", "8"), False),
        (expression("gpus", "Lt", "9"), True),
        (expression("pool", "Lt", "9"), False),
        (expression("gpus", "Lt"), False),
        (expression("gpus", "About", "8"), False),
    ],
)
def test_node_affinity_matches(requirement: dict[str, Any], matches: bool) -> None:
    """One matching term is enough; an empty term matches nothing."""
    terms = [
        {},
        {"matchExpressions": [expression("disk", "Exists"), requirement]},
        {"matchExpressions": [requirement]},
    ]
    pod = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
    assert why_unfit("n", ready_node(), pod) == ("" if matches else ELSEWHERE)


def test_a_pod_selects_nodes_by_label_and_name() -> None:
    assert why_unfit("n", ready_node(), {"nodeSelector": {"pool": "a"}}) == ""
    assert why_unfit("n", ready_node(), {"nodeSelector": {"pool": "b"}}) == ELSEWHERE
    for name, why in (("n", ""), ("other", ELSEWHERE)):
        terms = [{"matchFields": [expression("metadata.name", "In", name)]}]
        pod = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
        assert why_unfit("n", ready_node(), pod) == why
