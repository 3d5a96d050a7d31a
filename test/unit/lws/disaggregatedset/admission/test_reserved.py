"""Tests of lws.disaggregatedset.admission.validation: labels and annotations of the controller."""

from __future__ import annotations

import pytest

from test.unit.lws.disaggregatedset.admission.builders import (
    Object,
    beside,
    make_role,
    make_set,
    messages,
    warnings,
)

PREFIX = "disaggregatedset.x-k8s.io"
FORBIDDEN = "Forbidden: is set by the controller, which finds objects by it: remove it"


def labelled(**labels: str) -> Object:
    return {"metadata": {"labels": {f"{PREFIX}/{key}": value for key, value in labels.items()}}}


POD: Object = {"spec": {"containers": [{"name": "c"}]}}
WORKERS, LEADERS = (
    f"spec.roles[0].spec.leaderWorkerTemplate.{prefix}Template.metadata" for prefix in ("worker", "leader")
)


@pytest.mark.parametrize("key", ["name", "role", "slice", "revision"])
def test_reserved_labels_are_rejected(key: str) -> None:
    mine = labelled(**{key: "mine"})
    path = f"labels[{PREFIX}/{key}]"
    assert messages(make_set(*beside(make_role() | mine))) == [f"spec.roles[0].metadata.{path}: {FORBIDDEN}"]
    assert messages(make_set(*beside(make_role(pod=POD | mine)))) == [f"{WORKERS}.{path}: {FORBIDDEN}"]
    leaders = make_role(leaderWorkerTemplate={"leaderTemplate": POD | mine})
    assert messages(make_set(*beside(leaders))) == [f"{LEADERS}.{path}: {FORBIDDEN}"]


def test_reserved_labels_with_their_final_values_are_accepted() -> None:
    assert messages(make_set(*beside(make_role() | labelled(name="llm", role="prefill")))) == []


@pytest.mark.parametrize(
    ("name", "remembered"),
    [
        (f"{PREFIX}/initial-replicas", "how a rollout began"),
        (f"{PREFIX}/initial-replicas-of-others", "how a rollout began"),
        (f"{PREFIX}/added-metadata", "what it has added to a LeaderWorkerSet"),
        ("leaderworkerset.sigs.k8s.io/group-restart-counts", "the restarts of groups"),
        ("leaderworkerset.sigs.k8s.io/group-restarts-counted-for", "the restarts of groups"),
    ],
)
def test_annotations_with_records_of_the_controller_are_rejected(name: str, remembered: str) -> None:
    role = make_role() | {"metadata": {"annotations": {name: "7"}}}
    assert messages(make_set(*beside(role))) == [
        f"spec.roles[0].metadata.annotations[{name}]: Forbidden: is where the controller "
        f"remembers {remembered}: remove it"
    ]


def test_an_overwritten_label_causes_a_warning() -> None:
    """Wart 15."""
    app: Object = {"metadata": {"labels": {"app": "x"}}}
    raw = make_set(*beside(make_role(pod=POD | app) | app))
    assert messages(raw) == []
    assert warnings(raw) == [
        f'{path}.labels[app]: "x" is overwritten with <set>-<slice>-<role>: select pods by {PREFIX}/name and '
        f"{PREFIX}/role"
        for path in ("spec.roles[0].metadata", WORKERS)
    ]
