"""Edited identity labels and annotations are restored, and no pod is recreated."""

from __future__ import annotations

from functools import partial
from typing import Any

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.harness.groups import (
    annotations_of,
    controller_of,
    labels_of,
    pod_uids,
    revisions_of,
    settle,
)
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set, rolling
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World

Marks = tuple[str, ...]
# Without the selector labels of StatefulSets, which release a pod whose labels do not match.
EDITABLE: dict[tuple[str, str], tuple[Marks, Marks]] = {
    ("Pod", "marked-0"): (
        (GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL),
        (SIZE_ANNOTATION, LEADER_NAME_ANNOTATION),
    ),
    ("Pod", "marked-1"): ((REVISION_LABEL,), ()),
    ("Pod", "marked-0-1"): ((WORKER_INDEX_LABEL, REVISION_LABEL), (SIZE_ANNOTATION, LEADER_NAME_ANNOTATION)),
    ("StatefulSet", "marked-0"): ((NAME_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL), ()),
    ("StatefulSet", "marked"): ((NAME_LABEL, REVISION_LABEL), (REPLICAS_ANNOTATION,)),
}


def test_edited_labels_and_annotations_are_repaired_and_no_pod_is_deleted(world: World) -> None:
    budget = rolling(maxUnavailable=2)
    world.create(a_set("marked", size=2, rolloutStrategy=budget))
    settle(world, "marked")
    world.patch(SET, "marked", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
    settle(world, "marked")
    older, _ = (labels_of(revision)[REVISION_LABEL] for revision in revisions_of(world, "marked"))
    before, marks = specs(identities(world, "Pod", "StatefulSet")), marks_of(world)

    for value in ("7", None, older):
        for (kind, name), (labels, annotation_keys) in EDITABLE.items():
            edited = {
                "labels": dict.fromkeys(labels, value),
                "annotations": dict.fromkeys(annotation_keys, value),
            }
            world.patch(kind, name, {"metadata": edited})
        eventually(
            f"labels and annotations set to {value} are repaired",
            lambda: marks_of(world),
            lambda now: now == marks,
        )

    settle(world, "marked")
    stays(
        "no other object changes",
        lambda: differences(before, specs(identities(world, "Pod", "StatefulSet"))),
        3,
    )
    assert differences(before, specs(identities(world, "Pod", "StatefulSet"))) == []


def test_a_pod_released_by_its_statefulset_is_left_alone(world: World) -> None:
    world.create(a_set("released"))
    settle(world, "released")
    before = pod_uids(world, "released")

    for pod in ("released-0", "released-1-1"):
        world.patch("Pod", pod, {"metadata": {"labels": {NAME_LABEL: None}}})
        eventually(f"{pod} is released", partial(_owner, world, pod), lambda now: not now)
    stays("no pod is deleted", lambda: {pod: world.uid("Pod", pod) for pod in before}, 3)

    for pod in ("released-0", "released-1-1"):
        world.patch("Pod", pod, {"metadata": {"labels": {NAME_LABEL: "released"}}})
    settle(world, "released")
    assert pod_uids(world, "released") == before


def _owner(world: World, pod: str) -> dict[str, Any]:
    return controller_of(world.get("Pod", pod))


def marks_of(world: World) -> dict[Any, Any]:
    """Return the edited labels and annotations of each object."""
    objects = {key: world.get(*key) for key in EDITABLE}
    return {
        key: (
            {label: labels_of(objects[key]).get(label) for label in labels},
            {annotation: annotations_of(objects[key]).get(annotation) for annotation in annotation_keys},
        )
        for key, (labels, annotation_keys) in EDITABLE.items()
    }
