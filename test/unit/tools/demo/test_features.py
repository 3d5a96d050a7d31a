"""tools.demo.exhibit: each feature that a set uses is verified, and each fault is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from lws_api.leaderworkerset import v1
from test.unit.tools.demo.objects import NAME, make_group, make_service, make_set
from tools.demo.exhibit import Scenery, verify_features

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = {f"node-{number}": {ZONE: f"zone-{number // 2}", HOST: f"node-{number}"} for number in range(4)}
Edit = Callable[[dict[str, Any]], Any]


def parts() -> dict[str, Any]:
    """Return the correct objects of two groups of four that use every feature."""
    lws = make_set(2, 4)
    lws["metadata"]["annotations"] = {
        v1.EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE,
        v1.SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: HOST,
    }
    lws["spec"]["networkConfig"] = {"subdomainPolicy": "UniquePerReplica"}
    lws["spec"]["leaderWorkerTemplate"] |= {
        "subGroupPolicy": {"subGroupSize": 2},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    pods = [pod for group in range(2) for pod in make_group(group)]
    for number, pod in enumerate(pods):
        group, subgroup = number // 4, number // 2 % 2
        pod["metadata"]["namespace"] = "default"
        pod["metadata"]["labels"] |= {
            v1.GROUP_KEY_LABEL: f"key-{group}",
            v1.SUBGROUP_INDEX_LABEL: str(subgroup),
            v1.SUBGROUP_KEY_LABEL: f"key-{group}-{subgroup}",
        }
        pod["spec"] |= {"subdomain": f"{NAME}-{group}", "nodeName": f"node-{number // 2}"}
        pod["spec"]["containers"][0]["env"] = [
            {"name": v1.LEADER_ADDRESS_ENV, "value": f"{NAME}-{group}.{NAME}-{group}.default"},
            {"name": "TPU_WORKER_HOSTNAMES", "value": f"a-{number // 2},b-{number // 2}"},
            {"name": "TPU_WORKER_ID", "value": str(number % 2)},
        ]
    services = [copy.deepcopy(make_service()) for _ in range(2)]
    for group, service in enumerate(services):
        service["metadata"] |= {"name": f"{NAME}-{group}", "labels": {v1.NAME_LABEL: NAME}}
    claims = [
        {"metadata": {"name": f"data-{pod['metadata']['name']}"}, "status": {"phase": "Bound"}}
        for pod in pods
    ]
    return {"lws": lws, "pods": pods, "services": services, "claims": claims, "nodes": copy.deepcopy(NODES)}


def failed(scenery: dict[str, Any]) -> list[str]:
    return [check.claim for check in verify_features(Scenery(**scenery)) if not check.held]


def test_a_correct_set_passes_all_checks() -> None:
    checks = verify_features(Scenery(**parts()))
    assert [check.claim for check in checks] == [
        "8 pods carry LWS_LEADER_ADDRESS of their own leader, in a headless Service",
        "each of 2 groups has a Service of its own",
        "pods of each group are in subgroups of 2, in order",
        f"each of 2 groups is in one {ZONE}",
        f"no two groups share a {ZONE}",
        f"each of 4 subgroups is in one {HOST}",
        f"no two subgroups share a {HOST}",
        "each of 8 pods has its volumes: 8 claims are bound",
        "pods of 4 TPU slices name the same hosts, each with its own TPU_WORKER_ID",
    ]
    assert failed(parts()) == []


@pytest.mark.parametrize(
    ("edit", "claim"),
    [
        pytest.param(
            lambda all: all["pods"][1]["spec"]["containers"][0]["env"][0].update(value="elsewhere"),
            "of their own leader",
            id="address",
        ),
        pytest.param(lambda all: all["services"].pop(), "of their own leader", id="no Service"),
        pytest.param(lambda all: all["services"].pop(), "a Service of its own", id="too few Services"),
        pytest.param(
            lambda all: all["pods"][3]["metadata"]["labels"].update({v1.SUBGROUP_INDEX_LABEL: "0"}),
            "in subgroups of 2",
            id="subgroup",
        ),
        pytest.param(
            lambda all: all["pods"][0]["spec"].update(nodeName="node-3"),
            f"groups is in one {ZONE}",
            id="a group apart",
        ),
        pytest.param(
            lambda all: all["nodes"]["node-2"].update({ZONE: "zone-0"}),
            f"groups share a {ZONE}",
            id="two in one place",
        ),
        pytest.param(lambda all: all["claims"].pop(), "claims are bound", id="a claim is missing"),
        pytest.param(
            lambda all: all["claims"][0]["status"].update(phase="Pending"), "claims are bound", id="not bound"
        ),
        pytest.param(
            lambda all: all["pods"][1]["spec"]["containers"][0]["env"][2].update(value="0"),
            "its own TPU_WORKER_ID",
            id="an id twice",
        ),
    ],
)
def test_each_error_fails_a_check(edit: Edit, claim: str) -> None:
    scenery = parts()
    edit(scenery)
    assert any(claim in failure for failure in failed(scenery))


def test_leaders_may_be_in_no_subgroup() -> None:
    scenery = parts()
    template = scenery["lws"]["spec"]["leaderWorkerTemplate"]
    template["subGroupPolicy"] = {"subGroupSize": 3, "subGroupPolicyType": "LeaderExcluded"}
    for pod in scenery["pods"]:
        labels = pod["metadata"]["labels"]
        del labels[v1.SUBGROUP_INDEX_LABEL]
        if labels[v1.WORKER_INDEX_LABEL] != "0":
            labels[v1.SUBGROUP_INDEX_LABEL] = "0"
    assert not any("in subgroups" in claim for claim in failed(scenery))
    del scenery["pods"][1]["metadata"]["labels"][v1.SUBGROUP_INDEX_LABEL]
    assert any("workers of each group are in subgroups" in claim for claim in failed(scenery))


def test_unused_features_are_not_checked() -> None:
    pods = [pod for group in range(4) for pod in make_group(group)]
    for pod in pods:
        pod["metadata"]["namespace"], pod["spec"]["subdomain"] = "default", NAME
    checks = verify_features(Scenery(make_set(), pods, [make_service()], [], {}))
    assert [check.held for check in checks] == [True]
