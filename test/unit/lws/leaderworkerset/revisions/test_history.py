"""Tests of lws.leaderworkerset.revisions: record, parse, recognise, build, restore, explain."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest

from lws.history import plan
from lws.history.revision import CHANGE_CAUSE_ANNOTATION, find
from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.target_revision import choose_revision
from lws.leaderworkerset.revisions.encoding import key_of, serialised
from lws.leaderworkerset.revisions.history import (
    SEAL_ANNOTATION,
    Record,
    Recorded,
    describe,
    is_equal,
    record,
    restore,
    sealing,
)
from lws.leaderworkerset.revisions.reading import is_ours, parse
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Verbatim
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import NOW, build_revision, make_set

# Found by trial: with these images the canonical texts of `make_collision` have one hash.
COLLIDING = ("app:853034", "app:2005000")


def recognise(desired: Record, recorded: list[Recorded], running: Any = None) -> Recorded | None:
    """Return the newest revision that is equivalent to the record."""
    return plan.recognise(recorded, lambda revision: is_equal(desired, revision, running))


def chosen_key(lws: dict[str, Any], *recorded: Recorded, running: Any = None) -> str:
    """Return the key of the set's target revision.

    recorded: its revisions. running: the template of its leader StatefulSet; None if there is none.
    """
    leaders = {"metadata": {}, "spec": {"template": running}} if running is not None else None
    ownership = Ownership.OURS if running is not None else Ownership.ABSENT
    return choose_revision(SetSnapshot(lws, NOW, leaders=leaders, revisions=recorded), ownership).key


def make_collision(image: str) -> dict[str, Any]:
    """Return a set whose canonical text has the same hash as the text of another image."""
    lws = make_set(networkConfig=None)
    lws["spec"]["leaderWorkerTemplate"] = {
        "size": 2,
        "restartPolicy": "None",
        "workerTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}},
    }
    return lws


def make_stored(lws: dict[str, Any], number: int = 1, **metadata: Any) -> dict[str, Any]:
    """Return the ControllerRevision of the set, as the API server returns it."""
    built = copy.deepcopy(dict(build_revision(lws, record(lws), number)))
    built["data"] = json.loads(built["data"].text)
    stored = {
        "uid": f"revision-{number}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    built["metadata"] |= stored | metadata
    return built


def make_orphan(lws: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the ControllerRevision of the set without an owner."""
    return make_stored(lws, ownerReferences=[], **metadata)


def renamed(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the revision with the name that its present data yield, and without a checksum.

    Earlier releases wrote it like this.
    """
    text = serialised(stored["data"])
    metadata = {**stored["metadata"], "name": f"demo-{key_of(text)}-{stored['revision']}"}
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != SEAL_ANNOTATION
    }
    return {**stored, "metadata": {**metadata, "annotations": annotations}}


def as_before_0_34(value: Any) -> Any:
    """Return an object as releases with Kubernetes libraries before 0.34 wrote it.

    Its metadata has a null creationTimestamp.
    """
    if isinstance(value, list):
        return [as_before_0_34(item) for item in value]
    if not isinstance(value, dict):
        return value
    aged = {key: as_before_0_34(item) for key, item in value.items()}
    if "metadata" in aged:
        aged["metadata"] = {"creationTimestamp": None, **aged["metadata"]}
    return aged


def test_the_controller_revision_field_by_field() -> None:
    lws = make_set("demo", image="app:1")
    recorded = record(lws)
    assert build_revision(lws, recorded, 7) == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"demo-{recorded.key}-7",
            "namespace": "default",
            "labels": {NAME_LABEL: "demo", REVISION_LABEL: recorded.key},
            "annotations": {
                EXCLUSIVE_TOPOLOGY_ANNOTATION: "",
                **sealing(f"demo-{recorded.key}-7", recorded.key, {}),
            },
            "ownerReferences": [
                {
                    "apiVersion": "leaderworkerset.x-k8s.io/v1",
                    "kind": "LeaderWorkerSet",
                    "name": "demo",
                    "uid": lws["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "revision": 7,
        "data": Verbatim(recorded.text),
    }
    assert recorded.key == key_of(recorded.text)


def test_a_revision_of_running_pods_keeps_their_key() -> None:
    lws = make_set()
    built = build_revision(lws, record(lws), 1, key="0123456789abcdef0123456789abcdef01234567")
    assert built["metadata"]["labels"][REVISION_LABEL] == "0123456789abcdef0123456789abcdef01234567"
    assert built["metadata"]["name"] == f"demo-{record(lws).key}-1"


def test_long_names_are_cut_so_that_hash_and_number_fit() -> None:
    lws = make_set("x" * 250)
    assert build_revision(lws, record(lws), 1)["metadata"]["name"] == "x" * 220 + f"-{record(lws).key}-1"


def test_a_stored_revision_is_parsed_and_recognised() -> None:
    lws = make_set()
    recorded = parse(make_stored(lws, 3))
    assert (recorded.name, recorded.uid, recorded.number) == (f"demo-{record(lws).key}-3", "revision-3", 3)
    assert (recorded.key, recorded.created) == (record(lws).key, "2026-01-01T00:00:00Z")
    assert (recorded.is_orphan, recorded.is_terminating, recorded.broken) == (False, False, "")
    assert recorded.record.spec.keys() == {"leaderWorkerTemplate", "networkConfig"}
    assert "$patch" not in json.dumps(recorded.record.spec)
    assert recognise(record(lws), [recorded]) is recorded
    assert recognise(record(make_set(image="app:2")), [recorded]) is None


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"data": None}, "contains no leaderWorkerTemplate"),
        ({"data": {}}, "contains no leaderWorkerTemplate"),
        ({"data": "text"}, "contains no leaderWorkerTemplate"),
        ({"data": {"spec": ["list"]}}, "contains no leaderWorkerTemplate"),
        ({"data": {"spec": {"template": {}}}}, "contains no leaderWorkerTemplate"),
        (
            {"data": {"spec": {"leaderWorkerTemplate": "text"}}},
            "Template is 'text', not an object",
        ),
        ({"data": {"spec": {"leaderWorkerTemplate": None}}}, "contains no leaderWorkerTemplate"),
        ({"metadata": {"name": "demo-58b6956df9-1", "uid": "u"}}, "contains other data than its name says"),
        ({"metadata": {"name": "demo", "uid": "u"}}, "contains other data than its name says"),
    ],
    ids=[
        "null",
        "empty",
        "text",
        "list",
        "of a StatefulSet",
        "text inside",
        "null inside",
        "hash of other data",
        "no hash",
    ],
)
def test_broken_revisions_have_a_reason_and_are_never_used(change: dict[str, Any], broken: str) -> None:
    lws = make_set()
    recorded = parse({**make_stored(lws), **change})
    assert broken in recorded.broken
    assert recorded.name in recorded.broken
    assert recognise(record(lws), [recorded]) is None
    assert find([recorded], recorded.key) is None
    assert chosen_key(lws, recorded) == record(lws).key, "valid data under the same key replaces it"
    with pytest.raises(ValueError, match=recorded.name):
        restore(lws, recorded)


@pytest.mark.parametrize(
    ("part", "value", "broken"),
    [
        ("size", "two", "leaderWorkerTemplate.size is 'two', not a whole number"),
        ("size", 0, "leaderWorkerTemplate.size is 0, not from 1 to 2147483647"),
        ("size", 2**40, "leaderWorkerTemplate.size is 1099511627776, not from 1 to 2147483647"),
        ("size", 2**70, "leaderWorkerTemplate.size is a number of more than 64 bits"),
        ("workerTemplate", None, "leaderWorkerTemplate.workerTemplate is missing"),
        ("workerTemplate", {"spec": {"containers": [{"name": 1}]}}, "containers[0].name is 1, not text"),
        ("workerTemplate", {"metadata": {"labels": {"a": 1}}}, "metadata.labels.a is 1, not text"),
        ("subGroupPolicy", [], "subGroupPolicy is a list, not an object"),
        ("subGroupPolicy", {"subGroupSize": 0}, "subGroupSize is 0, not from 1"),
    ],
    ids=str,
)
def test_stored_templates_are_validated(part: str, value: Any, broken: str) -> None:
    revision = make_stored(make_set())
    revision["data"]["spec"]["leaderWorkerTemplate"][part] = value
    recorded = parse(revision)
    assert broken in recorded.broken
    assert recorded.record.spec == {}


@pytest.mark.parametrize("value", [[], "a", {"subdomainPolicy": "Mine"}, {"subdomainPolicy": 1}], ids=str)
def test_stored_network_configurations_are_validated(value: Any) -> None:
    revision = make_stored(make_set())
    revision["data"]["spec"]["networkConfig"] = value
    assert "data.spec.networkConfig" in parse(revision).broken


def test_restore_without_recorded_network_configuration_keeps_the_live_one() -> None:
    stored = make_stored(make_set(image="app:1"))
    del stored["data"]["spec"]["networkConfig"]
    stored = renamed(stored)
    live = make_set(image="app:2", networkConfig={"subdomainPolicy": "UniquePerReplica"})
    assert restore(live, parse(stored))["spec"]["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}


def test_a_revision_of_libraries_before_0_34_is_equal() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    lws = make_set(
        template={
            "volumeClaimTemplates": [claim],
            "leaderTemplate": make_set()["spec"]["leaderWorkerTemplate"]["workerTemplate"],
        }
    )
    stored = make_stored(lws)
    stored["data"] = as_before_0_34(stored["data"])
    stored = renamed(stored)
    del stored["metadata"]["annotations"]
    text = json.dumps(stored["data"])
    assert text.count('"creationTimestamp": null') == 3
    assert '"status": {}' in text
    recorded = parse(stored)
    assert recognise(record(lws), [recorded]) is recorded
    assert restore(lws, recorded)["spec"]["replicas"] == 2


def test_the_newest_of_equal_revisions_is_recognised() -> None:
    lws = make_set()
    old, new, different = (
        parse(make_stored(lws, 1)),
        parse(make_stored(lws, 5)),
        parse(make_stored(make_set(image="b"), 9)),
    )
    assert recognise(record(lws), [new, old, different]) is new
    assert recognise(record(lws), [old, new, different]) is new


def test_equal_numbers_are_ordered_by_creation_then_by_name() -> None:
    lws = make_set()
    key = record(lws).key
    first = parse(make_stored(lws, 1, name=f"demo-b-{key}-1"))
    later = parse(make_stored(lws, 1, name=f"demo-a-{key}-1", creationTimestamp="2026-01-02T00:00:00Z"))
    last = parse(make_stored(lws, 1, name=f"demo-c-{key}-1", creationTimestamp="2026-01-02T00:00:00Z"))
    assert recognise(record(lws), [later, first]) is later
    assert recognise(record(lws), [last, later, first]) is last


def test_a_terminating_revision_is_not_reused_but_keeps_its_key() -> None:
    lws = make_set()
    leaving = parse(make_stored(lws, deletionTimestamp="2026-01-02T00:00:00Z"))
    assert leaving.is_terminating
    assert recognise(record(lws), [leaving]) is None
    assert chosen_key(lws, leaving) == leaving.key


def test_two_templates_with_one_hash_get_two_keys() -> None:
    first, colliding = (make_collision(image) for image in COLLIDING)
    assert record(first).key == record(colliding).key
    assert record(first).text != record(colliding).text
    recorded = parse(make_stored(first))
    assert recognise(record(colliding), [recorded]) is None
    built = build_revision(colliding, record(colliding), 2, probe=1)
    key = built["metadata"]["labels"][REVISION_LABEL]
    assert chosen_key(colliding, recorded) == key == record(colliding).key_at(1) != recorded.key
    assert built["metadata"]["name"] == f"demo-{key}-2"
    second = parse({**make_stored(colliding, 2), "metadata": {**built["metadata"], "uid": "u"}})
    assert recognise(record(colliding), [recorded, second]) is second
    assert chosen_key(first, recorded, second) == recorded.key


def test_further_keys_of_a_large_record_are_found_without_hashing_it_again() -> None:
    """A set can have many revisions whose keys are taken."""
    large = record(make_collision("x" * 100_000))
    begun = time.process_time()
    assert large.key == large.key_at(0) == key_of(large.text)
    assert len({large.key_at(probe) for probe in range(50)}) == 50
    assert time.process_time() - begun < 0.4, "hashing the text each time takes more than a second"


@pytest.mark.parametrize(
    ("recorded_with", "desired_with", "running_with", "verdict"),
    [
        pytest.param("rack", "rack", None, True, id="equal"),
        pytest.param("rack", "zone", None, False, id="changed"),
        pytest.param("rack", "", None, False, id="removed"),
        pytest.param("", "rack", None, False, id="added"),
        pytest.param("", "", None, True, id="none"),
        pytest.param(None, "rack", None, True, id="earlier release, nothing runs"),
        pytest.param(None, "rack", "rack", True, id="earlier release, running equal"),
        pytest.param(None, "rack", "", False, id="earlier release, running without"),
        pytest.param("rack", "rack", "zone", True, id="the recorded value counts, not the running one"),
    ],
)
def test_topology_annotations_are_part_of_a_revision(
    recorded_with: str | None, desired_with: str, running_with: str | None, verdict: bool
) -> None:
    stored = make_stored(make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: recorded_with or ""}))
    if recorded_with is None:
        del stored["metadata"]["annotations"]
    edited = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: desired_with, "other": "x"})
    running = None
    if running_with is not None:
        running = {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: running_with}}}
    recorded = parse(stored)
    desired = record(edited)
    assert (recognise(desired, [recorded], running) is recorded) is verdict
    key = desired.key_at(0 if verdict else 1)
    assert chosen_key(edited, recorded, running=running) == key, "one key means one template"


def annotations_of(lws: dict[str, Any], key: str = "") -> dict[str, str]:
    """Return the annotations of the set's revision, except for the checksum."""
    annotations = dict(build_revision(lws, record(lws), 1, key=key)["metadata"]["annotations"])
    del annotations[SEAL_ANNOTATION]
    return annotations


PLACEMENT = {
    EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
    "leaderworkerset.sigs.k8s.io/exclusive-topology-scope": "LeaderWorkerSet",
    "leaderworkerset.sigs.k8s.io/shared-topology": "zone",
    "leaderworkerset.sigs.k8s.io/group-node-selector": "pool=$(GROUP_INDEX)",
    "leaderworkerset.sigs.k8s.io/group-tolerations": "pool",
}


@pytest.mark.parametrize("annotation", PLACEMENT)
def test_a_changed_placement_annotation_is_another_revision_with_the_same_data(annotation: str) -> None:
    before = make_set(annotations=PLACEMENT)
    edited = make_set(annotations={**PLACEMENT, annotation: "Cluster"})
    recorded = parse(make_stored(before))
    assert recorded.record.topology == PLACEMENT
    assert recognise(record(before), [recorded]) is recorded
    assert recognise(record(edited), [recorded]) is None
    assert record(edited).text == record(make_set()).text, "what upstream would record"
    assert chosen_key(edited, recorded) == record(edited).key_at(1)
    assert restore(edited, recorded)["metadata"]["annotations"] == PLACEMENT


def test_a_set_without_placement_annotations_is_recorded_as_by_earlier_releases() -> None:
    plain = make_set(annotations={"team": "a"})
    assert annotations_of(plain) == {EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}


def test_subgroup_topology_is_recorded_only_with_subgroups() -> None:
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack", SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}
    plain = make_set(annotations=annotations)
    grouped = make_set(annotations=annotations, template={"subGroupPolicy": {"subGroupSize": 1}})
    assert annotations_of(plain) == {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
    assert annotations_of(grouped) == annotations


def test_restore_replaces_two_sub_trees_and_keeps_the_rest() -> None:
    old = make_set(image="app:1", size=4, annotations={"team": "a", EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    recorded = parse(make_stored(old))
    live = make_set(
        image="app:2",
        replicas=9,
        annotations={"team": "b", EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"},
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
        rolloutStrategy={"type": "RollingUpdate"},
    )
    before = copy.deepcopy(live)
    restored = restore(live, recorded)
    assert live == before
    assert record(restored).text == record(old).text
    assert restored["spec"].keys() == live["spec"].keys()
    assert (restored["spec"]["replicas"], restored["spec"]["rolloutStrategy"]) == (
        9,
        {"type": "RollingUpdate"},
    )
    assert restored["metadata"] == {
        **live["metadata"],
        "annotations": {"team": "b", EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
    }


def test_restore_without_recorded_topology_keeps_the_live_one() -> None:
    stored = make_stored(make_set(image="app:1"))
    del stored["metadata"]["annotations"]
    live = make_set(image="app:2", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    assert restore(live, parse(stored))["metadata"] == live["metadata"]


def make_statefulset_history(lws: dict[str, Any], owner: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a revision of the StatefulSet controller, which copies the labels of the pod template."""
    return {
        **make_stored(lws, name="demo-7d4b9c5f6", ownerReferences=owner),
        "data": {"spec": {"template": {"$patch": "replace"}}},
    }


def test_revisions_are_ours_by_controller_or_by_name_and_data() -> None:
    lws = make_set()
    foreign_owner = {"kind": "StatefulSet", "name": "demo", "uid": "sts", "controller": True}
    named = {"name": "demo", "uid": lws["metadata"]["uid"]}
    assert is_ours(make_stored(lws), lws)
    assert is_ours({**make_stored(lws), "data": None}, lws), "broken, but ours"
    assert is_ours(make_orphan(lws), lws)
    assert is_ours(make_stored(lws, ownerReferences=[named]), lws), "an owner that is no controller"
    assert not is_ours(make_stored(lws, ownerReferences=[foreign_owner]), lws)
    assert not is_ours(make_statefulset_history(lws, [foreign_owner]), lws)
    assert not is_ours(make_statefulset_history(lws, []), lws)


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "demo-58b6956df9-1"},
        {"name": "other-{key}-1"},
        {"name": "demo-x-{key}-1"},
        {"name": "demo-{key}"},
        {"name": "demo-{key}-one"},
        {"name": "xdemo-{key}-1"},
        {"labels": {}},
        {"deletionTimestamp": "2026-01-02T00:00:00Z"},
    ],
    ids=[
        "hash of other data",
        "other set",
        "longer name",
        "no number",
        "no digits",
        "prefix",
        "no key",
        "terminating",
    ],
)
def test_orphans_that_are_not_adopted(metadata: dict[str, Any]) -> None:
    lws = make_set()
    if "name" in metadata:
        metadata = {"name": metadata["name"].format(key=record(lws).key)}
    assert not is_ours(make_orphan(lws, **metadata), lws)


def test_orphans_of_a_collision_and_of_earlier_releases_are_ours() -> None:
    lws = make_set()
    assert is_ours(make_orphan(lws, name=f"demo-{record(lws).key_at(2)}-17"), lws)
    aged = make_orphan(lws)
    aged["data"] = as_before_0_34(aged["data"])
    text = json.dumps(aged["data"], sort_keys=True, separators=(",", ":"))
    assert not is_ours(aged, lws), "the name is the hash of the data as it was written"
    aged["metadata"]["name"] = f"demo-{key_of(text)}-1"
    assert is_ours(aged, lws)


def test_describe_template_changes() -> None:
    old = parse(make_stored(make_set(image="app:1", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})))
    new = record(make_set(image="app:2", size=3, template={"restartPolicy": "None"}))
    assert describe(old.record, new) == [
        f"annotation {EXCLUSIVE_TOPOLOGY_ANNOTATION} removed, was rack",
        "size: 2 → 3",
        "worker template container main image: app:1 → app:2",
    ]
    assert describe(new, new) == []


def test_describe_other_changes() -> None:
    worker = make_set()["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    new = make_set(
        template={
            "leaderTemplate": worker,
            "subGroupPolicy": {"subGroupSize": 2},
            "volumeClaimTemplates": [claim],
        },
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
    )
    assert describe(record(make_set()), record(new)) == [
        "claim template added",
        "leader template added",
        "subGroupPolicy added",
        "subdomainPolicy: Shared → UniquePerReplica",
    ]


def test_the_change_cause_is_recorded() -> None:
    caused = make_set(annotations={CHANGE_CAUSE_ANNOTATION: "new model"})
    assert annotations_of(caused) == {
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "",
        CHANGE_CAUSE_ANNOTATION: "new model",
    }
    # A group that runs without history was not created by the change that the set describes now.
    assert annotations_of(caused, key="old") == {EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}
