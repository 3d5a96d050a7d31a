"""lws_api.leaderworkerset.v1: typed views of sets, including sets that older releases stored."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from lws_api.leaderworkerset import v1
from lws_api.leaderworkerset.v1 import (
    LeaderWorkerSet,
    RestartPolicy,
    RolloutStrategyType,
    StartupPolicy,
    SubdomainPolicy,
    SubGroupPolicyType,
)

TEMPLATE: dict[str, Any] = {
    "metadata": {"creationTimestamp": None},
    "spec": {"containers": [{"name": "c", "unheardOf": {"x": None}}], "newField": []},
}


def a_set(**spec: Any) -> dict[str, Any]:
    template = {"workerTemplate": TEMPLATE} | spec.pop("leaderWorkerTemplate", {})
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "generation": 3},
        "spec": {"leaderWorkerTemplate": template, **spec},
    }


def test_a_minimal_set_is_readable() -> None:
    lws = LeaderWorkerSet.model_validate(a_set())
    assert lws.spec.replicas == 1
    assert lws.spec.startup_policy is StartupPolicy.LEADER_CREATED
    assert lws.spec.network_config.subdomain_policy is SubdomainPolicy.SHARED
    assert lws.spec.rollout_strategy.type is RolloutStrategyType.ROLLING_UPDATE
    rolling = lws.spec.rollout_strategy.rolling_update_configuration
    assert (rolling.partition, rolling.max_unavailable, rolling.max_surge) == (0, 1, 0)
    template = lws.spec.leader_worker_template
    assert template.size == 1
    assert template.restart_policy is RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    assert template.leader_template is None
    assert template.sub_group_policy is None
    assert template.volume_claim_templates == ()
    assert template.persistent_volume_claim_retention_policy is None
    assert lws.spec.progress_deadline_seconds is None
    assert lws.spec.max_group_restarts is None
    assert lws.spec.pod_disruption_budget is None


def test_status_before_the_first_pass() -> None:
    status = LeaderWorkerSet.model_validate(a_set()).status
    assert status.conditions == ()
    assert (status.replicas, status.ready_replicas, status.updated_replicas, status.collision_count) == (
        0,
        0,
        0,
        0,
    )
    assert (status.current_revision, status.update_revision, status.hpa_pod_selector) == ("", "", "")
    assert (status.groups, status.rollout, status.last_progress_time) == (None, None, None)
    assert (status.members, status.restarts) == ({}, {})


def test_all_stored_fields_are_read() -> None:
    raw = a_set(
        replicas=4,
        progressDeadlineSeconds=60,
        maxGroupRestarts=0,
        podDisruptionBudget={"maxUnavailableGroups": "25%"},
        startupPolicy="LeaderReady",
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
        rolloutStrategy={
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"partition": 1, "maxUnavailable": "25%", "maxSurge": 2},
        },
        leaderWorkerTemplate={
            "leaderTemplate": {"spec": {}},
            "size": 8,
            "restartPolicy": "None",
            "subGroupPolicy": {"subGroupPolicyType": "LeaderExcluded", "subGroupSize": 7},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        },
    )
    raw["status"] = {
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "reason": "AllGroupsReady",
                "message": "All replicas are ready",
                "lastTransitionTime": "2024-05-01T10:00:00Z",
                "observedGeneration": 3,
            }
        ],
        "replicas": 4,
        "readyReplicas": 3,
        "updatedReplicas": 2,
        "hpaPodSelector": "a=b",
        "observedGeneration": 3,
        "currentRevision": "a-x-1",
        "updateRevision": "a-y-2",
        "collisionCount": 1,
        "lastProgressTime": "2024-05-01T10:00:00Z",
        "groups": {
            "counts": {"Ready": 3, "NotReady": 1},
            "unsettled": [{"name": "a-3", "state": "NotReady", "reason": "workers are not ready"}],
        },
        "rollout": {"revision": "a-y-2", "partition": 2},
        "members": {"0": "0123abcd-4567cdef"},
        "restarts": {"0": "2.1.1714557600.8bc7b8c4d"},
    }
    lws = LeaderWorkerSet.model_validate(raw)
    assert lws.spec.leader_worker_template.sub_group_policy is not None
    assert (
        lws.spec.leader_worker_template.sub_group_policy.sub_group_policy_type
        is SubGroupPolicyType.LEADER_EXCLUDED
    )
    assert lws.status.conditions[0].observed_generation == 3
    assert lws.model_dump(mode="json", exclude_unset=True) == raw


STORED_BY_OLDER_RELEASES = {
    "subgroups without a type": a_set(
        leaderWorkerTemplate={"subGroupPolicy": {"subGroupSize": 2}, "size": 4}
    ),
    "subgroups without a size": a_set(leaderWorkerTemplate={"subGroupPolicy": {}}),
    "former restart policy": a_set(leaderWorkerTemplate={"restartPolicy": "Default"}),
    "no network configuration": a_set(replicas=2),
    "network configuration without policy": a_set(networkConfig={}),
    "strategy without limits": a_set(rolloutStrategy={"type": "RollingUpdate"}),
    "limits without partition and surge": a_set(
        rolloutStrategy={"rollingUpdateConfiguration": {"maxUnavailable": 2}}
    ),
    "beyond today's bounds": a_set(replicas=2_000_000),
    "negative": a_set(replicas=-1, leaderWorkerTemplate={"size": 0}),
    "nulls": a_set(
        replicas=None, networkConfig=None, rolloutStrategy=None, leaderWorkerTemplate={"leaderTemplate": None}
    ),
    "fields of a later release": a_set(paused=True, leaderWorkerTemplate={"resizePolicy": {"a": 1}})
    | {"extra": 1},
}


@pytest.mark.parametrize("raw", STORED_BY_OLDER_RELEASES.values(), ids=STORED_BY_OLDER_RELEASES.keys())
def test_sets_stored_by_other_releases_are_readable(raw: dict[str, Any]) -> None:
    before = copy.deepcopy(raw)
    lws = LeaderWorkerSet.model_validate(raw)
    assert lws.spec.leader_worker_template.worker_template == TEMPLATE
    assert raw == before


def test_templates_are_not_changed() -> None:
    raw = a_set(leaderWorkerTemplate={"volumeClaimTemplates": [TEMPLATE]})
    template = LeaderWorkerSet.model_validate(raw).spec.leader_worker_template
    assert template.worker_template == TEMPLATE
    assert list(template.volume_claim_templates) == [TEMPLATE]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param({"metadata": {"name": "a"}}, "spec", id="no spec"),
        pytest.param({"spec": {}}, "leaderWorkerTemplate", id="no template"),
        pytest.param({"spec": {"leaderWorkerTemplate": {}}}, "workerTemplate", id="no workers"),
        pytest.param(a_set(startupPolicy="Whenever"), "startupPolicy", id="unknown policy"),
    ],
)
def test_an_invalid_set_is_rejected_with_the_path_of_the_field(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as error:
        LeaderWorkerSet.model_validate(raw)
    assert error.value.errors()[0]["loc"][-1] == field


NAMES = {
    "NAME_LABEL": "name",
    "WORKER_INDEX_LABEL": "worker-index",
    "GROUP_INDEX_LABEL": "group-index",
    "GROUP_KEY_LABEL": "group-key",
    "REVISION_LABEL": "template-revision-hash",
    "ROLE_LABEL": "role",
    "SUBGROUP_INDEX_LABEL": "subgroup-index",
    "SUBGROUP_KEY_LABEL": "subgroup-key",
    "FORMER_GROUP_GONE_LABEL": "former-group-gone",
    "SIZE_ANNOTATION": "size",
    "REPLICAS_ANNOTATION": "replicas",
    "LEADER_NAME_ANNOTATION": "leader-name",
    "LEADER_ADDRESS_ANNOTATION": "leader-address",
    "GROUP_IDENTITY_ANNOTATION": "group-identity",
    "EXCLUSIVE_TOPOLOGY_ANNOTATION": "exclusive-topology",
    "SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION": "subgroup-exclusive-topology",
    "SUBGROUP_SIZE_ANNOTATION": "subgroup-size",
    "SUBGROUP_POLICY_TYPE_ANNOTATION": "subgroup-policy-type",
    "SUBDOMAIN_POLICY_ANNOTATION": "subdomainPolicy",
    "LEADER_REQUESTS_TPUS_ANNOTATION": "leader-requests-tpus",
    "RECREATE_GROUP_AFTER_START_ANNOTATION": "experimental-recreate-group-after-start",
    "RESTART_EXEMPT_CONTAINERS_ANNOTATION": "restart-exempt-containers",
    "RESTART_EXEMPT_SIDECARS_ANNOTATION": "restart-exempt-sidecars",
    "POD_TERMINATION_POLICY_ANNOTATION": "pod-termination-policy",
    "SCHEDULING_LEVEL_LABEL": "scheduling-level",
    "SCHEDULING_LEVEL_ANNOTATION": "workload-aware-scheduling",
    "WORKLOAD_NAME_ANNOTATION": "workload-name",
    "PREWARM_LABEL": "prewarm",
    "PREWARM_NODE_ANNOTATION": "prewarm-node",
    "PODS_RETRIED_AT_ANNOTATION": "pods-retried-at",
    "GROUP_RESTART_COUNTS_ANNOTATION": "group-restart-counts",
    "GROUP_RESTARTS_COUNTED_FOR_ANNOTATION": "group-restarts-counted-for",
    "RESTART_BUDGET_EXHAUSTED_ANNOTATION": "group-restart-budget-exhausted",
    "RECOVER_ANNOTATION": "recover",
}


def test_labels_and_annotations_match_upstreams_names() -> None:
    ours = {name: value for name, value in vars(v1).items() if name.endswith(("_LABEL", "_ANNOTATION"))}
    assert ours == {name: f"leaderworkerset.sigs.k8s.io/{short}" for name, short in NAMES.items()}


def test_environment_names() -> None:
    ours = {value for name, value in vars(v1).items() if name.endswith("_ENV")}
    assert ours == {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"}
