"""Tests of sets that run under upstream with labels and annotations of the controller in their templates.

Admission accepts such sets, with a warning that says what happens to the labels and annotations.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws_api.leaderworkerset.placement import GROUP_NODE_SELECTOR_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.lws.leaderworkerset.admission.test_validation import make_set, make_subgroup

LEADER, WORKER = "spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"
SET, OVERWRITTEN, EFFECTIVE = "is set by the controller", "which overwrites this value", "takes effect"
NO_EFFECT = "has no effect here"


def template(labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "a:1"}]},
    }


def with_mark(key: str, value: str, where: str, **options: Any) -> dict[str, Any]:
    """Return a set with the label or annotation in the template of leaders, of workers, or in `both`."""
    is_label = key.endswith(("/name", "-index", "-key", "-hash"))
    marked = template({key: value}, {}) if is_label else template({}, {key: value})
    lws = make_set(**options)
    own = lws["spec"]["leaderWorkerTemplate"]
    own["workerTemplate"] = marked if where in ("workers", "both") else template({}, {})
    if where != "both":
        own["leaderTemplate"] = marked if where == "leaders" else template({}, {})
    return lws


@pytest.mark.parametrize(
    "key",
    [NAME_LABEL, WORKER_INDEX_LABEL, REVISION_LABEL, SIZE_ANNOTATION, LEADER_ADDRESS_ANNOTATION],
    ids=lambda key: key.rpartition("/")[2],
)
@pytest.mark.parametrize("where", ["leaders", "workers", "both"])
def test_overwritten_labels_are_accepted_with_a_warning(key: str, where: str) -> None:
    raw = with_mark(key, "0", where)
    assert errors_in(raw) == []
    (warning,) = warnings_in(raw)
    assert warning.startswith(LEADER if where == "leaders" else WORKER)
    assert SET in warning and OVERWRITTEN in warning


@pytest.mark.parametrize("key", [GROUP_INDEX_LABEL, GROUP_KEY_LABEL, LEADER_NAME_ANNOTATION])
def test_only_fields_that_prevent_pods_are_rejected(key: str) -> None:
    """If leaders have a template of their own, the values of workers are overwritten with those of their
    leader.
    """
    for where, path in (("leaders", LEADER), ("both", WORKER)):
        raw = with_mark(key, "7", where)
        (error,) = errors_in(raw)
        assert error.path.startswith(f"{path}.metadata.") and error.path.endswith(f"[{key}]")
        assert str(error).endswith("remove it from the template")
        assert warnings_in(raw) == []
    raw = with_mark(key, "7", "workers")
    assert errors_in(raw) == []
    assert [OVERWRITTEN in warning for warning in warnings_in(raw)] == [True]


DIVIDED = {"subgroup": make_subgroup(2)}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(
            with_mark(EXCLUSIVE_TOPOLOGY_ANNOTATION, "zone", "leaders"),
            "takes effect for leaders only: their workers do not follow them",
            id="topology of leaders",
        ),
        pytest.param(
            with_mark(EXCLUSIVE_TOPOLOGY_ANNOTATION, "zone", "workers"), NO_EFFECT, id="topology of workers"
        ),
        pytest.param(
            with_mark(
                EXCLUSIVE_TOPOLOGY_ANNOTATION,
                "zone",
                "leaders",
                annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
            ),
            OVERWRITTEN,
            id="topology beside that of the set",
        ),
        pytest.param(
            with_mark(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, "zone", "workers", **DIVIDED),
            "takes effect for pods of this template only",
            id="topology of subgroups",
        ),
        pytest.param(
            with_mark(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, "zone", "workers"),
            NO_EFFECT,
            id="topology of subgroups without subgroups",
        ),
        pytest.param(
            with_mark(SUBGROUP_SIZE_ANNOTATION, "2", "both"), EFFECTIVE, id="subgroups of the template"
        ),
        pytest.param(
            with_mark(SUBGROUP_SIZE_ANNOTATION, "none", "both", **DIVIDED),
            OVERWRITTEN,
            id="subgroups of the set",
        ),
        pytest.param(
            with_mark(SUBGROUP_POLICY_TYPE_ANNOTATION, "LeaderExcluded", "both", **DIVIDED),
            OVERWRITTEN,
            id="policy",
        ),
        pytest.param(
            with_mark(SUBGROUP_POLICY_TYPE_ANNOTATION, "LeaderExcluded", "both"),
            NO_EFFECT,
            id="policy alone",
        ),
        pytest.param(
            with_mark(SUBGROUP_INDEX_LABEL, "1", "workers", **DIVIDED), EFFECTIVE, id="index of a subgroup"
        ),
        pytest.param(
            with_mark(SUBGROUP_KEY_LABEL, "k", "workers", **DIVIDED), OVERWRITTEN, id="key of a subgroup"
        ),
        pytest.param(
            with_mark(SUBDOMAIN_POLICY_ANNOTATION, "UniquePerReplica", "leaders"),
            "takes effect: leaders get a host name without a Service",
            id="subdomain of leaders",
        ),
        pytest.param(
            with_mark(SUBDOMAIN_POLICY_ANNOTATION, "UniquePerReplica", "workers"),
            NO_EFFECT,
            id="subdomain of workers",
        ),
        pytest.param(
            with_mark(LEADER_REQUESTS_TPUS_ANNOTATION, "true", "workers"), EFFECTIVE, id="TPUs of the leader"
        ),
        pytest.param(with_mark(REPLICAS_ANNOTATION, "3", "leaders"), NO_EFFECT, id="replicas"),
    ],
)
def test_honoured_and_ignored_annotations_are_accepted_with_a_warning(
    raw: dict[str, Any], message: str
) -> None:
    assert errors_in(raw) == []
    (warning,) = warnings_in(raw)
    assert message in warning
    assert warnings_in({**raw, "spec": {**raw["spec"], "replicas": 9}}, raw) == [], (
        "the warning is not repeated"
    )


@pytest.mark.parametrize("key", [SUBGROUP_INDEX_LABEL, SUBGROUP_KEY_LABEL])
def test_subgroup_labels_are_allowed_without_subgroups(key: str) -> None:
    raw = with_mark(key, "1", "both")
    assert (errors_in(raw), warnings_in(raw)) == ([], [])


def test_subgroup_size_in_a_template_must_be_a_number() -> None:
    """No pod could be created, and under upstream none could, either."""
    (error,) = errors_in(with_mark(SUBGROUP_SIZE_ANNOTATION, "0", "workers"))
    assert error.path == f"{WORKER}.metadata.annotations[{SUBGROUP_SIZE_ANNOTATION}]"


@pytest.mark.parametrize("value", [2, None, True, {}, []], ids=str)
def test_label_values_must_be_strings(value: Any) -> None:
    """The API server rejects it, too. `lws plan` without a cluster reads the manifest as written."""
    raw = with_mark(SUBGROUP_SIZE_ANNOTATION, value, "workers")
    (error,) = errors_in(raw)
    assert str(error).startswith(f"{WORKER}.metadata.annotations[{SUBGROUP_SIZE_ANNOTATION}]: ")
    assert str(error).endswith("must be a string: put it in quotes")
    assert warnings_in(raw) == []


@pytest.mark.parametrize("key", [SHARED_TOPOLOGY_ANNOTATION, GROUP_NODE_SELECTOR_ANNOTATION])
def test_annotations_that_upstream_lacks_belong_to_the_set(key: str) -> None:
    (error,) = errors_in(with_mark(key, "zone", "leaders"))
    assert "move it to metadata.annotations of the set" in str(error)
