"""Tests of the labels and annotations that identify a pod, and of the repair of edited ones."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.group.marks import (
    PodMarks,
    edited_of,
    edits_of,
    lacks_group,
    marks_of_leader,
    marks_of_worker,
    was_admitted,
    with_identity,
    without_group,
)
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.group.plan import plan_existing_workers, plan_label_repairs
from lws.leaderworkerset.pod_identity import group_key
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Merge, Reference
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import (
    KEY,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

LWS = make_set(size=3)
TEMPLATE = make_leader_statefulset(LWS)["spec"]["template"]
LEADER = make_leader_pod(LWS, 4)
WORKERS = make_worker_statefulset(LEADER)
WORKER = make_worker_pod(WORKERS, 2)
LABELS = (NAME_LABEL, WORKER_INDEX_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL)
ANNOTATIONS = (SIZE_ANNOTATION, LEADER_NAME_ANNOTATION)


def edited(obj: dict[str, Any], name: str, value: str | None) -> dict[str, Any]:
    field = "labels" if name in LABELS else "annotations"
    values = {**obj["metadata"].get(field, {}), name: value}
    remaining = {key: text for key, text in values.items() if text is not None}
    return {**obj, "metadata": {**obj["metadata"], field: remaining}}


def as_leader(pod: Any, workers: Any = WORKERS) -> PodMarks:
    return marks_of_leader(pod, KEY, 3, TEMPLATE, workers)


@pytest.mark.parametrize("value", [None, "", "garbage", "0", "1"])
@pytest.mark.parametrize("name", [*LABELS, *ANNOTATIONS])
@pytest.mark.parametrize("pod", [LEADER, WORKER], ids=["leader", "worker"])
def test_edited_labels_and_annotations_are_repaired(
    pod: dict[str, Any], name: str, value: str | None
) -> None:
    marks = as_leader if pod is LEADER else lambda it: marks_of_worker(it, LEADER, WORKERS, 3)
    changed = edited(pod, name, value)
    edit = edited_of(changed, marks(changed))
    if changed == pod:
        assert edit is None
        return
    assert edit is not None
    assert with_identity(changed, marks(changed)) == pod
    (sequence,) = plan_label_repairs([edit]).sequences
    (merge,) = sequence
    assert isinstance(merge, Merge)
    assert merge.target == Reference.to(pod)
    assert name.rpartition("/")[2] in merge.why


@pytest.mark.parametrize("pod", [LEADER, WORKER], ids=["leader", "worker"])
def test_an_unedited_pod_is_returned_unchanged(pod: dict[str, Any]) -> None:
    marks = as_leader(pod) if pod is LEADER else marks_of_worker(pod, LEADER, WORKERS, 3)
    assert with_identity(pod, marks) is pod
    assert edits_of([(pod, marks)]) == ()


def test_a_terminating_pod_is_not_repaired() -> None:
    terminating = edited(make_leader_pod(LWS, 4, terminating=True), REVISION_LABEL, "garbage")
    assert edits_of([(terminating, as_leader(terminating))]) == ()


def test_pods_keep_the_labels_by_which_their_statefulset_selects_them() -> None:
    """The values do not matter: with other labels, the StatefulSet would release its pods."""
    workers = make_worker_statefulset(edited(LEADER, GROUP_KEY_LABEL, "of-another-release"))
    assert as_leader(LEADER, workers).labels[GROUP_KEY_LABEL] == "of-another-release"
    assert as_leader(LEADER, None).labels[GROUP_KEY_LABEL] == group_key("default", "demo-4")
    assert marks_of_worker(WORKER, LEADER, workers, 3).labels[GROUP_KEY_LABEL] == "of-another-release"


def test_labels_of_the_leader_template_are_no_edits() -> None:
    template = edited(edited(TEMPLATE, GROUP_KEY_LABEL, "mine"), LEADER_NAME_ANNOTATION, "mine")
    marks = marks_of_leader(LEADER, KEY, 3, template, None)
    assert GROUP_KEY_LABEL not in marks.labels
    assert LEADER_NAME_ANNOTATION not in marks.annotations


def test_unknown_labels_and_annotations_are_not_repaired() -> None:
    marks = marks_of_leader(LEADER, None, None, TEMPLATE, None)
    assert REVISION_LABEL not in marks.labels and SIZE_ANNOTATION not in marks.annotations
    assert SIZE_ANNOTATION not in marks_of_worker(WORKER, LEADER, WORKERS, None).annotations


@pytest.mark.parametrize(
    ("env", "admitted"), [([{"name": LEADER_ADDRESS_ENV}], True), ([], False), (None, False)]
)
def test_an_admitted_leader_without_its_labels_is_recognised(env: Any, admitted: bool) -> None:
    """The difference is in what the pod webhook puts into containers."""
    lost = edited(LEADER, GROUP_INDEX_LABEL, None)
    assert lacks_group(lost) and not lacks_group(LEADER)
    assert (
        was_admitted({**lost, "spec": {"containers": [{"name": "a"}, {"name": "b", "env": env}]}}) is admitted
    )
    assert GROUP_INDEX_LABEL not in without_group(as_leader(lost)).labels


def test_workers_of_a_former_revision_are_neither_scaled_nor_relabelled() -> None:
    """The workers were adopted from a former leader: their own template defines them."""
    intent = build_worker_statefulset(SetSpec.of(LWS), LEADER)
    adopted = make_worker_statefulset(make_leader_pod(make_set(size=2), 4, key="older"))
    assert plan_existing_workers(adopted, intent).is_empty
    (sequence,) = plan_existing_workers(edited(adopted, REVISION_LABEL, KEY), intent).sequences
    (merge,) = sequence
    assert isinstance(merge, Merge)
    assert merge.patch == {"metadata": {"labels": {REVISION_LABEL: "older"}}}


def test_tool_labels_of_workers_are_removed_with_the_next_write() -> None:
    intent = build_worker_statefulset(SetSpec.of(LWS), LEADER)
    labelled = edited(WORKERS, "objectset.rio.cattle.io/hash", "")
    assert plan_existing_workers(labelled, intent).is_empty
    scaled = {**labelled, "spec": {**labelled["spec"], "replicas": 7}}
    ((merge,),) = plan_existing_workers(scaled, intent).sequences
    assert isinstance(merge, Merge)
    assert merge.patch["metadata"] == {"annotations": {"objectset.rio.cattle.io/hash": None}}
