"""Tests of lws.leaderworkerset.revisions.recovery: what StatefulSets show of a lost revision."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.group.placement import worker_placement
from lws.leaderworkerset.revisions.history import record, restore
from lws.leaderworkerset.revisions.recovery import Running, as_recorded, claim_templates_of, reconstruct
from lws.leaderworkerset.revisions.shape import recorded_fault
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws_api.leaderworkerset.placement import GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    LEADER_ADDRESS_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
)
from test.unit.builders import make_leader_pod, make_pod_template, make_set

KEY = "of-before-revisions"
CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "fast"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
NODES = {GROUP_NODE_SELECTOR_ANNOTATION: "pool=$(GROUP_INDEX)", GROUP_TOLERATIONS_ANNOTATION: "pool"}
UNIQUE = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
SUBGROUPS = {"subGroupPolicy": {"subGroupPolicyType": "LeaderExcluded", "subGroupSize": 1}}


def running(
    lws: dict[str, Any], *, key: str = KEY, leader: bool = True, workers: bool = True, **added: Any
) -> Running:
    """Return what runs after `lws` was rolled out under the key.

    added: the node selector that was added to the workers.
    """
    leaders = build_leader_statefulset(SetSpec.of(lws), key, RollingUpdate(0, 2, 1))
    of_workers = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(lws, key=key))
    if added:
        of_workers["spec"]["template"]["spec"]["nodeSelector"] = added["node_selector"]
    return Running(
        key=key,
        leader=leaders["spec"]["template"] if leader else None,
        claims=claim_templates_of(leaders) if leader else (),
        workers=of_workers if workers else None,
    )


@pytest.mark.parametrize(
    "lws",
    [
        pytest.param(make_set(), id="one template"),
        pytest.param(
            make_set(template={"leaderTemplate": make_pod_template("leader:1")}), id="two templates"
        ),
        pytest.param(
            make_set(template={"leaderTemplate": make_pod_template("app:1")}), id="two equal templates"
        ),
        pytest.param(make_set(size=1), id="groups of one pod"),
        pytest.param(make_set(size=5), id="groups of five"),
        pytest.param(make_set(**UNIQUE), id="a subdomain for each group"),
        pytest.param(make_set(networkConfig=None), id="no network configuration"),
        pytest.param(make_set(template=SUBGROUPS, size=3), id="subgroups"),
        pytest.param(make_set(template={"volumeClaimTemplates": [CLAIM]}), id="claims"),
        pytest.param(make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}), id="exclusive placement"),
        pytest.param(
            make_set(
                annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}, template=SUBGROUPS, size=3
            ),
            id="exclusive placement of subgroups",
        ),
        pytest.param(make_set(annotations=NODES), id="nodes of their own"),
    ],
)
def test_the_desired_revision_is_recognised_and_recorded_byte_for_byte(lws: dict[str, Any]) -> None:
    before = copy.deepcopy(lws)
    reconstructed = reconstruct(lws, running(lws))
    assert reconstructed is not None
    assert reconstructed.is_desired
    assert reconstructed.guessed == ""
    assert reconstructed.record.text == record(lws).text
    assert reconstructed.record.topology == record(lws).topology
    assert lws == before


def test_the_leader_address_in_worker_templates_is_ignored() -> None:
    lws = make_set()
    observed = running(lws)
    assert observed.workers is not None
    annotations = observed.workers["spec"]["template"]["metadata"]["annotations"]
    annotations[LEADER_ADDRESS_ANNOTATION] = "demo-0.demo.default"
    reconstructed = reconstruct(lws, observed)
    assert (
        reconstructed is not None
        and reconstructed.is_desired
        and reconstructed.record.text == record(lws).text
    )


@pytest.mark.parametrize(
    ("ran", "desired"),
    [
        pytest.param(make_set(image="app:1"), make_set(image="app:2"), id="image"),
        pytest.param(make_set(size=2), make_set(size=3), id="size"),
        pytest.param(make_set(size=1), make_set(size=1, image="app:2"), id="image of groups of one pod"),
        pytest.param(
            make_set(template={"leaderTemplate": make_pod_template("leader:1")}),
            make_set(),
            id="no leader template",
        ),
        pytest.param(
            make_set(),
            make_set(template={"leaderTemplate": make_pod_template("leader:1")}),
            id="a leader template",
        ),
        pytest.param(make_set(**UNIQUE), make_set(), id="subdomains"),
        pytest.param(make_set(template=SUBGROUPS, size=3), make_set(size=3), id="no subgroups"),
        pytest.param(make_set(template={"volumeClaimTemplates": [CLAIM]}), make_set(), id="no claims"),
        pytest.param(
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}), make_set(), id="placement"
        ),
        pytest.param(
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}),
            make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}),
            id="other placement",
        ),
    ],
)
def test_another_revision_is_recorded_as_it_runs(ran: dict[str, Any], desired: dict[str, Any]) -> None:
    observed = running(ran)
    reconstructed = reconstruct(desired, observed)
    assert reconstructed is not None
    assert not reconstructed.is_desired
    assert (
        reconstructed.record.form != record(desired).form
        or reconstructed.record.topology != record(desired).topology
    )
    # The proof: the revision yields exactly what runs.
    rebuilt = restore(desired, as_recorded(desired, reconstructed))
    assert running(rebuilt) == observed


def test_the_reconstruction_is_equal_to_the_former_spec() -> None:
    ran = make_set(image="app:1", size=4, template={"volumeClaimTemplates": [CLAIM], "restartPolicy": "None"})
    desired = make_set(image="app:2", size=4, template={"volumeClaimTemplates": [CLAIM]})
    reconstructed = reconstruct(desired, running(ran))
    assert reconstructed is not None
    assert reconstructed.record.form == record(ran).form, "claims too: only a part of them shows"
    assert '"restartPolicy":"RecreateGroupOnPodRestart"' in reconstructed.record.text, (
        "no pod shows it: as the set has it"
    )


def test_the_key_of_the_desired_revision_is_sufficient() -> None:
    """Other clients may have added to the templates, which then differ but are equivalent."""
    lws = make_set()
    observed = running(make_set(image="mirror.example.com/app:1"), key=record(lws).key, workers=False)
    reconstructed = reconstruct(lws, observed)
    assert reconstructed is not None
    assert (reconstructed.is_desired, reconstructed.guessed) == (True, "")


def test_the_key_does_not_cover_the_placement() -> None:
    lws = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    reconstructed = reconstruct(lws, running(make_set(), key=record(lws).key))
    assert reconstructed is not None
    assert (reconstructed.is_desired, reconstructed.record.topology) == (False, {})
    assert reconstructed.record.text == record(lws).text


def test_templates_with_defaults_of_the_api_server_are_equal() -> None:
    lws = make_set()
    observed = running(lws)
    for template in (observed.leader, observed.workers["spec"]["template"] if observed.workers else None):
        assert template is not None
        template["metadata"]["creationTimestamp"] = None
        template["spec"] |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}}
        template["spec"]["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "resources": {}}
    reconstructed = reconstruct(lws, observed)
    assert reconstructed is not None
    assert reconstructed.is_desired


def test_the_node_selector_of_exclusive_placement_is_not_recorded() -> None:
    ran = make_set(image="app:1", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    ran["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    observed = running(ran, node_selector={"disk": "ssd", "rack": "r7"})
    reconstructed = reconstruct(ran, observed)
    assert reconstructed is not None
    assert reconstructed.is_desired
    reconstructed = reconstruct(make_set(image="app:2"), observed)
    assert reconstructed is not None
    workers = reconstructed.record.spec["leaderWorkerTemplate"]["workerTemplate"]
    assert workers["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_the_node_selector_of_a_group_is_not_recorded() -> None:
    ran = make_set(image="app:1", annotations=NODES)
    leader = make_leader_pod(ran)
    placement = worker_placement(ran, leader, None)
    workers = build_worker_statefulset(SetSpec.of(ran), leader, placement)
    assert workers["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "0"}
    observed = replace(running(ran), workers=workers)
    reconstructed = reconstruct(make_set(image="app:2"), observed)
    assert reconstructed is not None
    template = reconstructed.record.spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert not {"nodeSelector", "tolerations", "schedulingGates"} & template.keys()
    assert reconstructed.record.topology == NODES


@pytest.mark.parametrize(
    ("group_name", "own", "is_desired"),
    [
        pytest.param(f"demo-0-{KEY}-0a1b2c3d", None, True, id="inherited from the leader"),
        pytest.param("mine", {"podGroupName": "mine"}, True, id="set by users"),
        pytest.param("mine", None, False, id="removed by users"),
    ],
)
def test_the_pod_group_that_workers_inherit_is_not_recorded(
    group_name: str, own: dict[str, str] | None, is_desired: bool
) -> None:
    lws = make_set()
    if own is not None:
        lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["schedulingGroup"] = own
    observed = running(lws)
    assert observed.workers is not None
    observed.workers["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": group_name}
    reconstructed = reconstruct(lws, observed)
    assert reconstructed is not None
    assert reconstructed.is_desired is is_desired


@pytest.mark.parametrize(
    ("size", "guessed"), [(2, "the template of its workers"), (1, "")], ids=["workers", "none needed"]
)
def test_an_unknown_worker_template_is_taken_from_the_set(size: int, guessed: str) -> None:
    ran, desired = make_set(image="app:1", size=size), make_set(image="app:2", size=size)
    reconstructed = reconstruct(desired, running(ran, workers=False))
    assert reconstructed is not None
    assert (reconstructed.is_desired, reconstructed.guessed) == (False, guessed)
    template = reconstructed.record.spec["leaderWorkerTemplate"]
    leader = template.get("leaderTemplate", template["workerTemplate"])
    assert leader["spec"]["containers"][0]["image"] == "app:1"
    worker = template["workerTemplate"]["spec"]["containers"][0]["image"]
    assert worker == ("app:2" if size > 1 else "app:1")
    equal = reconstruct(ran, running(ran, workers=False))
    assert equal is not None
    assert (equal.is_desired, equal.guessed) == (True, guessed)


def test_workers_are_recreated_with_an_unknown_leader_template() -> None:
    """What is shown is enough to recreate workers."""
    ran = make_set(
        image="app:1",
        size=3,
        template={"volumeClaimTemplates": [CLAIM]},
        **UNIQUE,
        annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
    )
    desired = make_set(image="app:2")
    reconstructed = reconstruct(desired, running(ran, leader=False))
    assert reconstructed is not None
    rebuilt = restore(desired, as_recorded(desired, reconstructed))
    assert running(rebuilt).workers == running(ran).workers


def test_reconstruct_without_templates_returns_none() -> None:
    assert reconstruct(make_set(), Running(KEY)) is None


def test_an_unknown_subgroup_policy_is_not_recorded() -> None:
    """A revision with it would be broken, and each pass would record another one."""
    lws = make_set(template=SUBGROUPS, size=3)
    observed = running(lws)
    assert observed.leader is not None
    observed.leader["metadata"]["annotations"][SUBGROUP_POLICY_TYPE_ANNOTATION] = "Each"
    reconstructed = reconstruct(lws, observed)
    assert reconstructed is not None
    assert recorded_fault(json.loads(reconstructed.record.text)) == ""
    policy = reconstructed.record.spec["leaderWorkerTemplate"]["subGroupPolicy"]
    assert policy == {"subGroupSize": 1}


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}], ids=["missing", "null"])
def test_claims_without_metadata_are_readable(metadata: dict[str, Any]) -> None:
    lws = make_set(template={"volumeClaimTemplates": [{**metadata, "spec": {}}]})
    reconstructed = reconstruct(lws, running(make_set()))
    assert reconstructed is not None
    assert not reconstructed.is_desired


def test_an_invalid_size_is_taken_from_the_set() -> None:
    lws = make_set(size=3)
    observed = running(lws)
    assert observed.leader is not None
    observed.leader["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/size"] = "many"
    reconstructed = reconstruct(lws, observed)
    assert reconstructed is not None
    assert reconstructed.is_desired
