"""Tests of what takes effect on running LeaderWorkerSets, what is restored, and what waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.children.upkeep import live_role, plan_role_upkeep, waiting_edits
from lws.disaggregatedset.spec import RECORDS, Role, SlicePlacement, parse
from lws.kube.metadata import annotations_of, labels_of
from lws.kube.patches import with_merged
from lws.leaderworkerset.admission.defaulting import default
from lws.runtime.actions import Merge, Plan
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import PlacementType
from test.unit.lws.disaggregatedset.sets import KEY, make_disaggregated, make_role


def role(**fields: Any) -> Role:
    return parse(make_disaggregated(make_role(**fields))).roles[0]


def stored(made_from: Role, replicas: int = 3) -> dict[str, Any]:
    """Return the child as the API server stores it."""
    child = build_child(make_disaggregated(), made_from, None, (0, KEY), replicas)
    default(child)
    child = defaulted(child)
    child["metadata"]["uid"] = "uid-child"
    return child


PLAIN = role()
LIST = "disaggregatedset.x-k8s.io/added-metadata"
FULL = role(
    leaderService={"ports": [{"port": 80}]},
    podDisruptionBudget={"maxUnavailableGroups": 1},
    progressDeadlineSeconds=60,
    maxGroupRestarts=3,
    startupPolicy="LeaderReady",
    rolloutStrategy={"rollingUpdateConfiguration": {"maxSurge": 2}},
    template={
        "restartPolicy": "None",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "maxGroupRestarts": 4,
    },
    role={"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}},
)


def patch_of(planned: Plan) -> Any:
    if planned.is_empty:
        return None
    ((merge,),) = planned.sequences
    assert isinstance(merge, Merge)
    return merge.patch


def upkeep(child: dict[str, Any], current: Role | None, recorded: Role | None = PLAIN) -> Any:
    role = live_role(current) if current is not None else None
    return patch_of(plan_role_upkeep("llm", child, role, recorded))


@pytest.mark.parametrize("made_from", [PLAIN, FULL], ids=["plain", "full"])
def test_a_new_child_needs_no_update(made_from: Role) -> None:
    assert upkeep(stored(made_from), made_from, made_from) is None
    assert upkeep(stored(made_from, replicas=0), made_from, None) is None


@pytest.mark.parametrize(
    ("edited", "patch"),
    [
        pytest.param(role(replicas=9, image="other:2"), None, id="nothing that takes effect at once"),
        pytest.param(
            role(rolloutStrategy={"rollingUpdateConfiguration": {"maxUnavailable": 2, "maxSurge": "50%"}}),
            {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxUnavailable": 2, "maxSurge": "50%"}}},
            id="budgets",
        ),
        pytest.param(
            role(rolloutStrategy={"rollingUpdateConfiguration": {"maxUnavailable": "20%"}}),
            None,
            id="wart 34: budgets that would hold the child up",
        ),
        pytest.param(role(startupPolicy="LeaderReady"), {"startupPolicy": "LeaderReady"}, id="startup"),
        pytest.param(
            role(template={"restartPolicy": "Default"}),
            {"leaderWorkerTemplate": {"restartPolicy": "None"}},
            id="restart policy",
        ),
        pytest.param(
            role(template={"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}),
            {"leaderWorkerTemplate": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}},
            id="claims",
        ),
        pytest.param(
            role(template={"maxGroupRestarts": 5}),
            {"leaderWorkerTemplate": {"maxGroupRestarts": 5}},
            id="restarts in the template",
        ),
        pytest.param(
            role(template={"restartBackoff": {"baseSeconds": 20}}),
            {"leaderWorkerTemplate": {"restartBackoff": {"baseSeconds": 20, "capSeconds": 300}}},
            id="back-off",
        ),
        pytest.param(
            role(groupReplacementPolicy="Immediate"),
            {"groupReplacementPolicy": "Immediate"},
            id="replacement",
        ),
        pytest.param(role(groupReplacementPolicy="PostTermination"), None, id="replacement, the default"),
        pytest.param(role(maxGroupRestarts=5), {"maxGroupRestarts": 5}, id="restarts"),
        pytest.param(
            role(podTerminationPolicy="Parallel"), {"podTerminationPolicy": "Parallel"}, id="termination"
        ),
        pytest.param(role(progressDeadlineSeconds=5), {"progressDeadlineSeconds": 5}, id="deadline"),
        pytest.param(
            role(podDisruptionBudget={"maxUnavailableGroups": "10%"}),
            {"podDisruptionBudget": {"maxUnavailableGroups": "10%"}},
            id="disruption budget",
        ),
        pytest.param(role(networkConfig={"subdomainPolicy": "UniquePerReplica"}), None, id="networks wait"),
        pytest.param(
            role(template={"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}),
            None,
            id="a default, written out",
        ),
    ],
)
def test_edits_of_a_role_are_one_write_to_its_child(edited: Role, patch: dict[str, Any] | None) -> None:
    assert upkeep(stored(PLAIN), edited) == ({"spec": patch} if patch else None)


def test_removed_fields_of_a_role_are_removed_from_its_child() -> None:
    assert upkeep(stored(FULL), PLAIN, FULL) == {
        "metadata": {"labels": {"a": None}, "annotations": {"b": None}},
        "spec": {
            "leaderService": None,
            "leaderWorkerTemplate": {
                "maxGroupRestarts": None,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"},
                "restartPolicy": "RecreateGroupOnPodRestart",
            },
            "maxGroupRestarts": None,
            "podDisruptionBudget": None,
            "progressDeadlineSeconds": None,
            "rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": 0}},
            "startupPolicy": "LeaderCreated",
        },
    }


def test_edited_labels_are_restored_and_foreign_labels_are_kept() -> None:
    child = stored(PLAIN)
    labels = child["metadata"]["labels"]
    labels |= {"app": "x", "others": "kept"}
    del labels["disaggregatedset.x-k8s.io/revision"]
    patch = {"metadata": {"labels": {"app": "llm-0-prefill", "disaggregatedset.x-k8s.io/revision": KEY}}}
    assert upkeep(child, PLAIN) == upkeep(child, None) == patch


@pytest.mark.parametrize("key", sorted(RECORDS.keys() - {LIST}))
def test_records_of_the_controller_are_never_taken_from_a_role(key: str) -> None:
    """Restarts of groups are counted in an annotation of the child. A stored role may have it, too."""
    with_record = role(role={"metadata": {"annotations": {key: "of the role", "b": "2"}}})
    assert annotations_of(stored(with_record)) == {"b": "2"}
    child = stored(with_record)
    child["metadata"]["annotations"] |= {key: "of the child", LIST: f"annotations:b,annotations:{key}"}
    without_record = role(role={"metadata": {"annotations": {"b": "2"}}})
    for current in (with_record, without_record):
        for recorded in (PLAIN, with_record):
            patch = upkeep(child, current, recorded) or {"metadata": {"annotations": {}}}
            assert key not in patch["metadata"]["annotations"]


def test_keys_of_deployment_tools_are_removed_only_with_another_change() -> None:
    tools, others = {"kro.run/owned": "true"}, {"a": "1"}
    claimed = role(role={"metadata": {"labels": tools, "annotations": tools}})
    child = stored(PLAIN)
    child["metadata"]["labels"] |= tools
    child["metadata"]["annotations"] = dict(tools)
    assert upkeep(child, claimed, claimed) is None and upkeep(child, PLAIN, claimed) is None
    more = role(role={"metadata": {"labels": {**tools, **others}, "annotations": tools}})
    removed = dict.fromkeys(tools)
    assert upkeep(child, more, claimed) == {
        "metadata": {"labels": {**others, **removed}, "annotations": {**removed, LIST: "labels:a"}}
    }


def test_labels_of_the_set_precede_those_of_a_role() -> None:
    named = role(role={"metadata": {"labels": {"app": "mine", "disaggregatedset.x-k8s.io/role": "x"}}})
    assert upkeep(stored(PLAIN), named) is None
    assert upkeep(stored(PLAIN), PLAIN, named) is None


def test_metadata_of_a_role_is_restored() -> None:
    child = stored(FULL)
    child["metadata"]["labels"]["a"] = "edited"
    del child["metadata"]["annotations"]["b"]
    assert upkeep(child, FULL, FULL) == {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}


def test_metadata_that_was_added_to_a_role_is_removed_again() -> None:
    """The role had none when the child's revision was recorded."""
    added = {"labels": {"a": "1", "app": "mine"}, "annotations": {"b": "2"}}
    edited = replace(PLAIN, metadata=added)
    child = stored(PLAIN)
    child["metadata"]["labels"]["others"] = "kept"
    child["metadata"]["annotations"] = {"others": "kept"}
    child = with_merged(child, upkeep(child, edited))
    assert annotations_of(child) == {"others": "kept", "b": "2", LIST: "annotations:b,labels:a"}
    assert labels_of(child)["a"] == "1"
    assert upkeep(child, edited) is upkeep(child, edited, None) is upkeep(child, None) is None
    assert upkeep(child, PLAIN) == {
        "metadata": {"labels": {"a": None}, "annotations": {"b": None, LIST: None}},
    }
    assert upkeep(child, PLAIN) == upkeep(child, PLAIN, None)
    assert upkeep(child, edited, edited) == {"metadata": {"annotations": {LIST: None}}}


def test_metadata_that_a_role_has_is_its_own_even_if_somebody_else_had_set_it_before() -> None:
    child = stored(PLAIN)
    child["metadata"]["labels"]["a"] = "1"
    edited = replace(PLAIN, metadata={"labels": {"a": "1"}})
    child = with_merged(child, upkeep(child, edited))
    assert annotations_of(child) == {LIST: "labels:a"}
    assert upkeep(child, PLAIN) == {"metadata": {"labels": {"a": None}, "annotations": {LIST: None}}}


def test_no_other_record_is_removed_by_an_edited_list_of_added_metadata() -> None:
    baseline = "disaggregatedset.x-k8s.io/initial-replicas"
    child = stored(PLAIN)
    listed = f"annotations:{baseline},labels:app,garbage,"
    child["metadata"]["annotations"] = {baseline: "4", LIST: listed}
    assert upkeep(child, PLAIN) == {"metadata": {"annotations": {LIST: None}}}


def test_topology_annotations_and_baselines_are_not_changed() -> None:
    topology = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    child = stored(PLAIN)
    child["metadata"]["annotations"] = {"disaggregatedset.x-k8s.io/initial-replicas": "4", topology: "rack"}
    annotations = {topology: "zone", "disaggregatedset.x-k8s.io/initial-replicas": "1"}
    edited = replace(PLAIN, metadata={"annotations": annotations})
    assert upkeep(child, edited) is None
    assert upkeep(child, PLAIN, edited) is None


def test_a_legacy_child_keeps_its_labels() -> None:
    child = stored(PLAIN)
    child["metadata"]["name"] = f"llm-{KEY}-prefill"
    child["metadata"]["labels"]["app"] = "llm-prefill"
    del child["metadata"]["labels"]["disaggregatedset.x-k8s.io/slice"]
    assert upkeep(child, PLAIN) is None


def test_fields_that_wait_for_the_next_revision_are_reported() -> None:
    topology = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    recorded = parse(make_disaggregated(make_role("prefill"), make_role("decode")))
    edited = parse(
        make_disaggregated(
            make_role("decode", networkConfig={"subdomainPolicy": "UniquePerReplica"}),
            make_role("router"),
            make_role("prefill", role={"metadata": {"annotations": {topology: "zone", "a": "b"}}}),
            placementPolicy={"type": "ExclusiveSlice", "topology": "zone"},
        )
    )
    assert waiting_edits(recorded, recorded) == ()
    assert waiting_edits(edited, recorded) == (
        "spec.roles[0].spec.networkConfig",
        f"spec.roles[2].metadata.annotations[{topology}]",
        "spec.placementPolicy",
    )
    spelled = make_disaggregated(
        make_role("prefill", networkConfig={"subdomainPolicy": "Shared"}),
        make_role("decode"),
        placementPolicy={"type": "None", "topology": "zone"},
    )
    assert waiting_edits(parse(spelled), recorded) == ()
    scheduled = parse(make_disaggregated(make_role("prefill", scheduling={}), make_role("decode")))
    assert waiting_edits(scheduled, recorded) == ("spec.roles[0].spec.scheduling",)
    placed = replace(recorded, placement=SlicePlacement(PlacementType.EXCLUSIVE_SLICE, "zone"))
    assert waiting_edits(recorded, placed) == ("spec.placementPolicy",)
