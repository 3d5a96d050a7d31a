"""Tests that we write what upstream's controller would have written: bytes, names, labels, templates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lws.history.revision import find
from lws.kube.defaults import DEFAULTS
from lws.kube.typed import POD_TYPES, Normaliser
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.revisions.encoding import serialised
from lws.leaderworkerset.revisions.history import SEAL_ANNOTATION, record, restore
from lws.leaderworkerset.revisions.reading import parse
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    LEADER_ADDRESS_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
)
from test.unit.builders import build_revision, make_set
from test.unit.compat.observed import Observed
from test.unit.compat.states import Object, State, load, names

AS_STORED = Normaliser(POD_TYPES, DEFAULTS)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

ABOUT_TO_CHANGE = ("edited-without-history", "mid-rollout-recorded")
WITH_HISTORY = [name for name in names() if "without-history" not in name and "lost" not in name]


def upstream_finds_equal(lws: Object, revision: Object) -> bool:
    """Decide as upstream's controller whether anything has changed: by bytes, both encoded as it does."""
    live = record(lws).text
    return live == serialised(revision["data"]) or record(restore(lws, parse(revision))).text == live


@pytest.mark.parametrize(
    ("lws", "key"),
    [
        pytest.param(
            make_set(
                "tiny",
                template={
                    "restartPolicy": "None",
                    "size": 1,
                    "workerTemplate": {"spec": {"containers": [{"image": "a:1", "name": "c"}]}},
                },
            ),
            "58b6956df9",
            id="tiny",
        ),
        pytest.param(
            make_set(
                "escaped",
                template={
                    "workerTemplate": {
                        "metadata": {"labels": {"app": "w"}},
                        "spec": {
                            "nodeName": "n1",
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "img:1",
                                    "args": ["--a=<b>&c"],
                                    "env": [
                                        {"name": "LWS_GROUP_SIZE", "value": "user"},
                                        {"name": "X", "value": "1"},
                                    ],
                                    "resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}},
                                }
                            ],
                        },
                    }
                },
            ),
            "6b44f4458c",
            id="escapes and quantities",
        ),
    ],
)
def test_keys_equal_those_of_upstream(lws: Object, key: str) -> None:
    revision = build_revision(lws, record(lws), 1)
    name = lws["metadata"]["name"]
    assert revision["metadata"]["name"] == f"{name}-{key}-1"
    assert revision["metadata"]["labels"] == {NAME_LABEL: name, REVISION_LABEL: key}


# Upstream's controller takes the default of the policy type for a change.
@pytest.mark.parametrize("name", [name for name in WITH_HISTORY if name != "at-rest-subgroups-without-type"])
def test_a_revision_is_encoded_as_by_upstream(name: str) -> None:
    state = load(name)
    (newest,) = [revision for revision in state.revisions if revision["revision"] == _live_number(state)]
    built = build_revision(state.lws, record(state.lws), newest["revision"], key=_key(newest))
    metadata = {key: newest["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    if name == "at-rest-v0.7":
        # Newer libraries write no null timestamps: other bytes with the same meaning.
        metadata["name"] = "web-7c54ff9c85-1"
    assert {key: built["metadata"][key] for key in metadata} == metadata
    # Apart from annotations of our own, nothing else is there.
    assert built["metadata"].keys() == {*metadata, "annotations"}
    assert set(built["metadata"]["annotations"]) == {EXCLUSIVE_TOPOLOGY_ANNOTATION, SEAL_ANNOTATION}
    assert upstream_finds_equal(state.lws, newest)
    assert upstream_finds_equal(state.lws, {**built, "data": json.loads(built["data"].text)})


@pytest.mark.parametrize("name", [name for name in names() if name not in ABOUT_TO_CHANGE])
def test_the_applied_leader_statefulset_equals_the_stored_one(name: str) -> None:
    """The template has no label, annotation or field that upstream does not write."""
    state = load(name)
    stored, lws = state.leaders, state.lws
    intent = build_leader_statefulset(SetSpec.of(lws), _key(stored), RollingUpdate(0, 0, 1), stored)
    assert AS_STORED.write("PodTemplateSpec", intent["spec"]["template"]) == AS_STORED.write(
        "PodTemplateSpec", stored["spec"]["template"]
    )
    for field in ("serviceName", "podManagementPolicy", "selector"):
        assert intent["spec"][field] == stored["spec"][field]
    for field in ("labels", "annotations"):
        assert intent["metadata"][field] == _inherited(stored, field)
    assert intent["metadata"]["ownerReferences"] == stored["metadata"]["ownerReferences"]
    assert intent["spec"].keys() - stored["spec"].keys() == set()


@pytest.mark.parametrize("name", [name for name in WITH_HISTORY if name != "at-rest-one-template"])
async def test_created_worker_statefulsets_equal_the_stored_ones(name: str) -> None:
    state = load(name)
    snapshot = await Observed(state.objects).of_set()
    for group in snapshot.groups:
        key = _key(group.leader)
        recorded = find(snapshot.revisions, key)
        assert recorded is not None
        built = build_worker_statefulset(SetSpec.of(restore(state.lws, recorded)), group.leader)
        stored = state.get("StatefulSet", group.leader["metadata"]["name"])
        template = stored["spec"]["template"]
        if name.startswith("at-rest-exclusive"):
            # The placement of workers is decided when the leader has its node.
            del template["spec"]["nodeSelector"]
        # Releases before 0.11 did not write this annotation.
        annotations = built["spec"]["template"]["metadata"]["annotations"]
        template["metadata"]["annotations"].setdefault(
            LEADER_ADDRESS_ANNOTATION, annotations[LEADER_ADDRESS_ANNOTATION]
        )
        assert AS_STORED.write("PodTemplateSpec", built["spec"]["template"]) == AS_STORED.write(
            "PodTemplateSpec", template
        )
        fields = ("serviceName", "replicas", "ordinals", "podManagementPolicy", "selector")
        assert {field: built["spec"][field] for field in fields} == {
            field: stored["spec"][field] for field in fields
        }
        # Releases before 0.11 did not write this label.
        stored["metadata"]["labels"].setdefault(ROLE_LABEL, "worker")
        for field in ("labels", "annotations"):
            assert built["metadata"][field] == _inherited(stored, field)
        assert built["metadata"]["ownerReferences"] == stored["metadata"]["ownerReferences"]


def test_upstream_sees_no_change_if_only_the_placement_changes() -> None:
    """Upstream's controller ignores annotations: the key differs, the bytes are the same."""
    lws = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    plain = make_set()
    assert record(lws).text == record(plain).text


def test_upstream_rolls_out_changes_of_policies_that_we_apply_in_place() -> None:
    """Only these policies have to be restored before a return to upstream."""
    before, after = make_set(), make_set(template={"restartPolicy": "None"})
    stored = dict(build_revision(before, record(before), 1))
    stored["data"] = json.loads(stored["data"].text)
    assert record(after).form == parse(stored | {"metadata": {**stored["metadata"], "uid": "u"}}).record.form
    assert not upstream_finds_equal(after, stored)


def _key(obj: Object) -> str:
    return str(obj["metadata"]["labels"][REVISION_LABEL])


def _live_number(state: State) -> int:
    """Return the number of the revision that equals the set's spec."""
    form = record(state.lws).form
    return max(revision["revision"] for revision in state.revisions if parse(revision).record.form == form)


def _inherited(obj: Object, field: str) -> dict[str, Any]:
    """Return the field without the last-applied annotation, which stays until a rollout rewrites it."""
    return {key: value for key, value in obj["metadata"][field].items() if key != LAST_APPLIED}
