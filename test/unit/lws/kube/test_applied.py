"""`changed_paths` agrees with a small model of the API server's field management."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lws.kube import patches
from lws.kube.patches import Path, changed_paths, digest, merge_patch_of, was_dropped_below
from test.unit import api_server
from test.unit.builders import make_leader_statefulset, make_set

MANAGER = "lws"
PREFIX = ("spec", "template", "spec")

_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
}
"""Lists that the API server merges by keys; every other list is atomic."""


def differences(intent: Any, stored: Any, *how: Any) -> list[str]:
    """Return the paths of `changed_paths`, dotted."""
    return [".".join(path) for path in changed_paths(intent, stored, *how)]


_KEY_DEFAULTS = {"protocol": "TCP"}
_UNTRACKED = {(), ("apiVersion",), ("kind",), ("metadata",)} | {
    ("metadata", f) for f in ("name", "namespace", "uid")
}


def _fields(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fieldsV1 of an apply of `value`."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {} if path in _UNTRACKED or not value else {".": {}}
        for key, below in value.items():
            if (*path, key) in _UNTRACKED and key != "metadata":
                continue
            fields[f"f:{key}"] = _fields(below, (*path, key))
        return {} if fields == {".": {}} else fields
    if isinstance(value, list) and path[-1] in _KEYS:
        fields = {".": {}} if path[-1] != "ownerReferences" else {}
        for element in value:
            keys = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in _KEYS[path[-1]]}
            fields[f"k:{json.dumps(keys, separators=(',', ':'))}"] = _fields(element, (*path, "[]"))
        return fields
    return {}


def _intent(**pod_spec: Any) -> dict[str, Any]:
    """Return a typical intent for a leader StatefulSet."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "labels": {"app": "demo", "rev": "a"},
            "annotations": {"note": "1"},
            "ownerReferences": [
                {"kind": "LeaderWorkerSet", "name": "demo", "uid": "u-1", "controller": True}
            ],
        },
        "spec": {
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "serviceName": "demo",
            "selector": {"matchLabels": {"app": "demo"}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": 0, "maxUnavailable": 2},
            },
            "template": {
                "metadata": {"labels": {"app": "demo"}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "app:1",
                            "args": ["--port=80", "--verbose"],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}],
                            "ports": [{"containerPort": 80, "name": "http"}],
                            "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "1Gi"}},
                        }
                    ],
                    **pod_spec,
                },
            },
        },
    }


def _stored(
    intent: dict[str, Any], change: Callable[[dict[str, Any]], None] = lambda obj: None
) -> dict[str, Any]:
    """Return the stored object after an apply of `intent` and a change by another client."""
    stored = copy.deepcopy(intent)
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": _fields(intent)}
    status = {**entry, "subresource": "status", "fieldsV1": {"f:status": {"f:replicas": {}}}}
    others = {
        **entry,
        "manager": "kube-controller-manager",
        "operation": "Update",
        "fieldsV1": {"f:status": {}},
    }
    stored["metadata"] |= {
        "uid": "u-2",
        "resourceVersion": "17",
        "generation": 3,
        "managedFields": [others, status, entry],
    }
    spec = stored["spec"]
    spec |= {"revisionHistoryLimit": 10}
    spec["template"]["spec"] |= {"dnsPolicy": "ClusterFirst", "securityContext": {}}
    for container in spec["template"]["spec"]["containers"]:
        container["terminationMessagePath"] = "/dev/termination-log"
        container.setdefault("resources", {})
        for port in container.get("ports", []):
            port.setdefault("protocol", "TCP")
    stored["status"] = {"replicas": 4}
    change(stored)
    return stored


def _main(obj: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = obj["spec"]["template"]["spec"]["containers"][0]
    return container


def _pod_spec(obj: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = obj["spec"]["template"]["spec"]
    return spec


def _drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(obj: dict[str, Any]) -> None:
        for key in path[:-1]:
            obj = obj[key]
        del obj[path[-1]]

    return change


def _set(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = path_and_value

    def change(obj: dict[str, Any]) -> None:
        for key in path:
            obj = obj[key]
        obj[last] = value

    return change


MAIN = ("spec", "template", "spec", "containers", 0)


def test_the_fake_writes_managed_fields_like_an_api_server() -> None:
    fields = _fields(_intent())
    assert fields["f:metadata"] == {
        "f:labels": {".": {}, "f:app": {}, "f:rev": {}},
        "f:annotations": {".": {}, "f:note": {}},
        "f:ownerReferences": {
            'k:{"uid":"u-1"}': {".": {}, "f:kind": {}, "f:name": {}, "f:uid": {}, "f:controller": {}}
        },
    }
    main = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert main["f:ports"] == {
        ".": {},
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:name": {}},
    }
    assert main["f:args"] == {}


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(_stored(_intent()), id="right-after-the-apply"),
        pytest.param(
            _stored(_intent(), _drop("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")),
            id="a-field-that-we-own-was-dropped-by-a-feature-gate",
        ),
        pytest.param(
            _stored(
                _intent(), _set(*MAIN, "resources", "limits", {"nvidia.com/gpu": "8000m", "memory": "1024Mi"})
            ),
            id="other-spelling-of-quantities",
        ),
        pytest.param(_stored(_intent(), _set("metadata", "labels", "foreign", "x")), id="foreign-label"),
        pytest.param(
            _stored(_intent(), _set("metadata", "annotations", "foreign", "")),
            id="foreign-annotation",
        ),
        pytest.param(
            _stored(
                _intent(),
                lambda obj: obj["metadata"]["ownerReferences"].insert(0, {"uid": "u-9", "kind": "X"}),
            ),
            id="foreign-owner-reference",
        ),
        pytest.param(
            _stored(_intent(), _set("spec", "template", "metadata", "annotations", {"restartedAt": "now"})),
            id="foreign-annotation-in-the-template",
        ),
        pytest.param(
            _stored(_intent(), lambda obj: _main(obj)["env"].append({"name": "INJECTED", "value": "x"})),
            id="foreign-environment-variable-after-ours",
        ),
        pytest.param(
            _stored(_intent(), lambda obj: _main(obj)["env"].insert(1, {"name": "INJECTED", "value": "x"})),
            id="foreign-environment-variable-between-ours",
        ),
        pytest.param(
            _stored(_intent(), lambda obj: _pod_spec(obj)["containers"].insert(0, {"name": "sidecar"})),
            id="foreign-container",
        ),
        pytest.param(
            _stored(_intent(), lambda obj: _pod_spec(obj).update(volumes=[{"name": "x", "emptyDir": {}}])),
            id="foreign-volume",
        ),
    ],
)
def test_nothing_to_apply(stored: dict[str, Any]) -> None:
    assert differences(_intent(), stored, MANAGER) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(_set("spec", "replicas", 5), "spec.replicas", id="scaled-by-hand"),
        pytest.param(_set("metadata", "labels", "rev", "b"), "metadata.labels.rev", id="label-edited"),
        pytest.param(
            _set("spec", "updateStrategy", "rollingUpdate", "partition", 3),
            "spec.updateStrategy.rollingUpdate.partition",
            id="partition-edited",
        ),
        pytest.param(
            _set(*MAIN, "image", "app:2"), "spec.template.spec.containers.0.image", id="image-edited"
        ),
        pytest.param(
            _set(*MAIN, "env", 0, "value", "2"),
            "spec.template.spec.containers.0.env.0.value",
            id="env-edited",
        ),
        pytest.param(
            lambda obj: _main(obj)["env"].reverse(),
            "spec.template.spec.containers.0.env.0.name",
            id="other-order-of-env-matters-for-references",
        ),
        pytest.param(
            _set(*MAIN, "args", ["--verbose", "--port=80"]),
            "spec.template.spec.containers.0.args.0",
            id="other-order-of-an-atomic-list",
        ),
        pytest.param(
            lambda obj: _main(obj)["args"].append("--more"),
            "spec.template.spec.containers.0.args",
            id="atomic-list-longer",
        ),
        pytest.param(
            _set(*MAIN, "resources", "limits", "memory", "2Gi"),
            "spec.template.spec.containers.0.resources.limits.memory",
            id="another-quantity",
        ),
        pytest.param(
            _set(*MAIN, "resources", "limits", "memory", "lots"),
            "spec.template.spec.containers.0.resources.limits.memory",
            id="no-quantity-at-all",
        ),
        pytest.param(
            _set("metadata", "ownerReferences", [{"uid": "u-9"}]),
            "metadata.ownerReferences.kind",
            id="owner-replaced",
        ),
        pytest.param(
            _set(*MAIN, "ports", 0, "protocol", "UDP"),
            "spec.template.spec.containers.0.ports",
            id="other-key-is-another-element",
        ),
    ],
)
def test_changes_by_others_are_differences(change: Callable[[dict[str, Any]], None], path: str) -> None:
    assert path in differences(_intent(), _stored(_intent(), change), MANAGER)


def _removed(*path: str) -> Callable[[dict[str, Any]], None]:
    """Return a change by which another manager removes our field, also from our managedFields."""

    def change(obj: dict[str, Any]) -> None:
        _drop(*path)(obj)
        _drop("fieldsV1", *(f"f:{key}" for key in path))(obj["metadata"]["managedFields"][2])

    return change


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(_removed("metadata", "labels", "rev"), "metadata.labels.rev", id="label"),
        pytest.param(
            _removed("metadata", "annotations", "note"), "metadata.annotations.note", id="annotation"
        ),
        pytest.param(_removed("spec", "serviceName"), "spec.serviceName", id="field"),
    ],
)
def test_removals_by_others_are_differences(change: Callable[[dict[str, Any]], None], path: str) -> None:
    assert differences(_intent(), _stored(_intent(), change), MANAGER) == [path]


def _changed(
    change: Callable[[dict[str, Any]], None], intent: dict[str, Any] | None = None
) -> dict[str, Any]:
    intent = intent if intent is not None else _intent()
    change(intent)
    return intent


UDP = 'spec.template.spec.containers.{"name":"main"}.ports.{"containerPort":80,"protocol":"UDP"}'


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        pytest.param(
            _intent(),
            _changed(_drop("metadata", "labels", "rev")),
            ["metadata.labels.rev"],
            id="label-removed",
        ),
        pytest.param(
            _intent(),
            _changed(_drop("metadata", "annotations", "note")),
            ["metadata.annotations.note"],
            id="annotation-removed",
        ),
        pytest.param(
            _changed(_set("metadata", "annotations", "empty", "")),
            _intent(),
            ["metadata.annotations.empty"],
            id="annotation-without-value-removed",
        ),
        pytest.param(
            _intent(),
            _changed(_set("metadata", "annotations", "empty", "")),
            ["metadata.annotations.empty"],
            id="annotation-without-value-added",
        ),
        pytest.param(
            _intent(),
            _changed(_set("metadata", "labels", "empty", "")),
            ["metadata.labels.empty"],
            id="label-without-value-added",
        ),
        pytest.param(
            _intent(),
            _changed(_set("spec", "minReadySeconds", 5)),
            ["spec.minReadySeconds"],
            id="field-added",
        ),
        pytest.param(
            _intent(automountServiceAccountToken=True),
            _intent(),
            ["spec.template.spec.automountServiceAccountToken"],
            id="field-removed",
        ),
        pytest.param(
            _intent(),
            _intent(automountServiceAccountToken=False),
            ["spec.template.spec.automountServiceAccountToken"],
            id="a-false-that-means-something-added",
        ),
        pytest.param(
            _intent(automountServiceAccountToken=False),
            _intent(),
            ["spec.template.spec.automountServiceAccountToken"],
            id="a-false-that-means-something-removed",
        ),
        pytest.param(
            _intent(),
            _changed(_set(*MAIN, "securityContext", {"runAsUser": 0})),
            ["spec.template.spec.containers.0.securityContext"],
            id="a-zero-that-means-something-added",
        ),
        pytest.param(
            _intent(),
            _changed(lambda intent: _main(intent)["env"].append({"name": "C"})),
            ["spec.template.spec.containers.0.env"],
            id="environment-variable-added",
        ),
        pytest.param(
            _intent(),
            _changed(_drop(*MAIN, "env", 1)),
            [
                "spec.template.spec.containers.0.env",
                'spec.template.spec.containers.{"name":"main"}.env.{"name":"B"}',
            ],
            id="environment-variable-removed",
        ),
        pytest.param(
            _changed(lambda intent: _pod_spec(intent)["containers"].append({"name": "other", "image": "x"})),
            _intent(),
            ["spec.template.spec.containers", 'spec.template.spec.containers.{"name":"other"}'],
            id="container-removed",
        ),
        pytest.param(
            _changed(_set(*MAIN, "ports", 0, "protocol", "UDP")),
            _intent(),
            [f"{UDP}.protocol"],
            id="protocol-reset-to-its-default",
        ),
        pytest.param(
            _changed(_set(*MAIN, "ports", 0, "containerPort", 81)),
            _intent(),
            [
                "spec.template.spec.containers.0.ports.0.containerPort",
                'spec.template.spec.containers.{"name":"main"}.ports.{"containerPort":81,"protocol":"TCP"}',
            ],
            id="another-port",
        ),
        pytest.param(
            _changed(_set("metadata", "finalizers", ["a", "b"])),
            _changed(_set("metadata", "finalizers", ["a"])),
            ["metadata.finalizers"],
            id="shorter-list",
        ),
    ],
)
def test_a_changed_intent_is_a_difference(
    before: dict[str, Any], after: dict[str, Any], paths: list[str]
) -> None:
    assert differences(after, _stored(before), MANAGER) == paths


def test_an_element_removed_from_the_intent_is_a_difference() -> None:
    stored = _stored(_intent(), _set("metadata", "finalizers", ["a", "b"]))
    stored["metadata"]["managedFields"][2]["fieldsV1"]["f:metadata"]["f:finalizers"] = {
        'v:"a"': {},
        'v:"b"': {},
    }
    intent = _changed(_set("metadata", "finalizers", ["b", "c"]))
    assert 'metadata.finalizers."a"' in differences(intent, stored, MANAGER)


def test_zero_values_written_by_typed_clients_are_no_difference() -> None:
    """Typed Kubernetes clients add or omit empty structures and zero values."""
    plain = _intent()
    typed = _intent(hostNetwork=False, hostname="", volumes=[], nodeSelector={}, affinity=None)
    typed["spec"]["template"]["metadata"]["creationTimestamp"] = None
    _main(typed)["env"][0]["value"] = _main(plain)["env"][0]["value"] = ""
    _main(typed)["stdin"] = False
    sidecar = {"name": "side", "image": "x"}
    _pod_spec(plain)["containers"].append(sidecar)
    _pod_spec(typed)["containers"].append({**sidecar, "resources": {}})
    stored = _stored(plain, _drop(*MAIN, "env", 0, "value"))
    stored["metadata"]["managedFields"] = []
    stored["spec"]["template"]["metadata"]["creationTimestamp"] = None
    assert differences(typed, stored, MANAGER) == []
    assert differences(plain, stored, MANAGER) == []


def test_equal_values_of_other_managers_are_no_difference() -> None:
    """Another client created the object: nothing is ours yet, but an apply would change nothing."""
    stored = _stored(_intent())
    stored["metadata"]["managedFields"] = [
        {"manager": "lws", "operation": "Update", "fieldsV1": _fields(_intent())}
    ]
    assert differences(_intent(), stored, MANAGER) == []


def test_a_dropped_field_without_ownership_is_a_difference() -> None:
    """No apply has shown yet that this server drops the field."""
    stored = _stored(_intent(), _drop("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"))
    stored["metadata"]["managedFields"] = []
    assert differences(_intent(), stored, MANAGER) == ["spec.updateStrategy.rollingUpdate.maxUnavailable"]


@pytest.mark.parametrize(
    ("intended", "actual"),
    [
        pytest.param("0.5", "500m", id="fraction"),
        pytest.param(8, "8", id="number"),
        pytest.param(0.5, "500m", id="floating-number"),
        pytest.param("1024Mi", "1Gi", id="binary"),
        pytest.param("0.0001", "1m", id="rounded-up-to-thousandths"),
    ],
)
def test_quantities(intended: Any, actual: Any) -> None:
    intent = _changed(_set(*MAIN, "resources", "limits", "memory", intended))
    stored = _stored(_intent(), _set(*MAIN, "resources", "limits", "memory", actual))
    assert differences(intent, stored, MANAGER) == []


def test_only_fields_of_quantities_are_compared_as_quantities() -> None:
    intent = _changed(_set("metadata", "annotations", "note", "1"))
    stored = _stored(_intent(), _set("metadata", "annotations", "note", "1000m"))
    assert differences(intent, stored, MANAGER) == ["metadata.annotations.note"]


@pytest.mark.parametrize(
    ("intended", "actual"),
    [
        pytest.param(True, "true", id="text-for-truth"),
        pytest.param(True, 1, id="number-for-truth"),
        pytest.param("1", 1, id="number-for-text"),
        pytest.param([], "x", id="text-for-list"),
        pytest.param({"a": 1}, "x", id="text-for-mapping"),
        pytest.param("x", {"a": 1}, id="mapping-for-text"),
    ],
)
def test_other_types_differ(intended: Any, actual: Any) -> None:
    stored = _stored(_intent(), _set("spec", "extra", actual))
    assert differences(_changed(_set("spec", "extra", intended)), stored, MANAGER) == ["spec.extra"]


def test_tolerated_paths_may_stay_but_not_differ() -> None:
    def is_note(path: Path) -> bool:
        return path == ("metadata", "annotations", "note")

    stored = _stored(_intent())
    assert differences(_changed(_drop("metadata", "annotations", "note")), stored, MANAGER, is_note) == []
    changed = _changed(_set("metadata", "annotations", "note", "2"))
    assert differences(changed, stored, MANAGER, is_note) == ["metadata.annotations.note"]


def test_comparison_does_not_change_its_arguments() -> None:
    intent, stored = _intent(hostNetwork=False), _stored(_intent())
    before = copy.deepcopy((intent, stored))
    differences(intent, stored, MANAGER)
    assert (intent, stored) == before


def test_a_built_statefulset_at_rest_needs_no_apply() -> None:
    lws = make_set()
    stored = make_leader_statefulset(lws)
    assert differences({**stored, "status": {}}, stored, MANAGER) == []


def test_digests_depend_on_values_but_not_on_order() -> None:
    intent = {"a": 1, "b": {"c": [1, 2], "d": "é"}}
    assert digest(intent) == digest({"b": {"d": "é", "c": [1, 2]}, "a": 1})
    assert digest(intent) != digest({"b": {"d": "é", "c": [2, 1]}, "a": 1})
    assert len(digest(intent)) == 16


TEMPLATE = ("spec", "template")


def test_fields_dropped_by_a_disabled_feature_gate_are_recognised() -> None:
    intent = make_leader_statefulset(make_set())
    for field in ("status", "managedFields"):
        intent.pop(field, None)
    intent["metadata"].pop("managedFields", None)
    intent["spec"]["template"]["spec"]["newField"] = {"x": 1}
    stored = api_server.applied(intent)
    dropped = copy.deepcopy(stored)
    del dropped["spec"]["template"]["spec"]["newField"]
    edited = copy.deepcopy(dropped)
    edited["metadata"]["managedFields"] = []
    assert not was_dropped_below(intent, stored, MANAGER, TEMPLATE)
    assert was_dropped_below(intent, dropped, MANAGER, TEMPLATE)
    assert not was_dropped_below(intent, edited, MANAGER, TEMPLATE), (
        "no manager owns the field: another client removed it"
    )
    assert not was_dropped_below(intent, dropped, MANAGER, ("metadata",))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([("spec", "replicas")], {"spec": {"replicas": 4}}, id="a number"),
        pytest.param(
            [("metadata", "labels", "rev"), ("metadata", "labels", "gone.example/x")],
            {"metadata": {"labels": {"rev": "a", "gone.example/x": None}}},
            id="one path to set and one to remove",
        ),
        pytest.param([("metadata", "ownerReferences")], None, id="a list"),
        pytest.param([("spec", "template", "spec", "containers", "0", "image")], None, id="in a list"),
    ],
)
def test_a_merge_patch_of_some_paths(paths: list[Path], expected: dict[str, Any] | None) -> None:
    assert merge_patch_of(_intent(), paths) == expected


def test_lists_that_are_merged_by_keys_are_compared_in_linear_time() -> None:
    """A set may have five thousand ports without a protocol, which the API server defaults."""
    count = 5000
    ports = [{"containerPort": port} for port in range(1, count)]
    keys = [f'k:{{"containerPort":{port},"protocol":"TCP"}}' for port in range(1, count)]
    fields = {"f:spec": {"f:ports": {key: {".": {}, "f:containerPort": {}} for key in keys}}}
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    stored = {
        "metadata": {"managedFields": [entry]},
        "spec": {"ports": [{**port, "protocol": "TCP"} for port in ports]},
    }
    begun = time.process_time()
    assert changed_paths({"spec": {"ports": ports}}, stored, MANAGER) == []
    assert time.process_time() - begun < 2, "each with each takes ten times as long"


def test_long_keys_are_not_kept() -> None:
    variable = {"name": "V" * 100_000, "value": "1"}
    key = f'k:{{"name":"{variable["name"]}"}}'
    fields = {"f:spec": {"f:env": {key: {".": {}, "f:name": {}, "f:value": {}}}}}
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    stored = {"metadata": {"managedFields": [entry]}, "spec": {"env": [variable]}}
    before = patches._cached_keys.cache_info().currsize
    assert changed_paths({"spec": {"env": [variable]}}, stored, MANAGER) == []
    assert changed_paths({"spec": {"env": []}}, stored, MANAGER) != []
    assert patches._cached_keys.cache_info().currsize == before
