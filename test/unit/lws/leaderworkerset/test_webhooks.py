"""Tests of the webhook handlers through kopf's own admission function.

The code that applies patches is independent of the code that makes them.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import kopf
import pytest

from lws.config import load
from lws.kube.field_errors import Refused
from lws.leaderworkerset import registration
from lws.leaderworkerset.admission import pod
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.observe.former_node import former_node
from lws.leaderworkerset.registration import (
    ENDPOINTS,
    MUTATE_POD,
    MUTATE_SET,
    VALIDATE_POD,
    VALIDATE_SET,
    LeaderGates,
    handlers,
)
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.scheduling import API_VERSION, NO_SCHEDULER, UNAVAILABLE
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, PODS
from lws.runtime.errors import Forbidden, NotFound
from lws.runtime.store import Store
from lws.runtime.webhooks.handlers import Handler, register
from lws.runtime.webhooks.server import reviewed
from lws_api.config.v1alpha1 import GangSchedulingManagement
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION, NODE_RETURN_EXCEPT_ANNOTATION
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE, NAME_LABEL, SIZE_ANNOTATION
from test.unit import builders

Review = Callable[..., Any]
PREFIX = "leaderworkerset.sigs.k8s.io"


def handlers_over(
    store: Store | None = None, *, provider: str = "", cluster: Any = None, **flags: str
) -> Mapping[str, Handler]:
    """Return the handlers over a store, which is empty by default, with a gang scheduler."""
    settings = load(None, flags, {}, namespace_file=Path("there-is-none"))
    if provider:
        gang = {"gang_scheduling_management": GangSchedulingManagement(schedulerProvider=provider)}
        settings = replace(settings, configuration=settings.configuration.model_copy(update=gang))
    store = store if store is not None else Store(lambda before, after: None, TABLES)
    return handlers(settings, store, cast("Cluster", cluster))


@pytest.fixture
def review(wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]]) -> Review:
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over())
    return reviewing(wire_kopf(registry)[0])


def reviewing(serve: kopf.WebhookFn) -> Review:
    """Return a function that sends a review to a webhook, and returns the `response`."""

    async def call(webhook: str, new: Any, old: Any = None, operation: str = "") -> dict[str, Any]:
        resource = ENDPOINTS[webhook]
        request = {
            "uid": "review-1",
            "resource": {"group": resource.group, "version": "v1", "resource": resource.plural},
            "operation": operation or ("UPDATE" if old else "CREATE"),
            "namespace": "default",
            "object": new,
            "oldObject": old,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = json.loads((await reviewed(serve, webhook, resource, json.dumps(body).encode())).body)
        assert answer["apiVersion"] == "admission.k8s.io/v1"
        assert answer["kind"] == "AdmissionReview"
        assert answer["response"].pop("uid") == "review-1"
        response: dict[str, Any] = answer["response"]
        return response

    return call


def operations_in(response: dict[str, Any]) -> list[dict[str, Any]]:
    assert response["allowed"] is True
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    operations: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return operations


def patched(obj: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the object after a JSON patch (RFC 6902), as strict about paths as the API server."""
    # As on the wire, no two fields share an object.
    result = json.loads(json.dumps(obj))

    def target(pointer: str) -> tuple[Any, Any]:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        parent: Any = result
        for part in parts[:-1]:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        assert isinstance(parent, list | dict)
        if isinstance(parent, dict):
            return parent, parts[-1]
        index = len(parent) if parts[-1] == "-" else int(parts[-1])
        assert 0 <= index <= len(parent)
        return parent, index

    def take(pointer: str) -> Any:
        parent, key = target(pointer)
        return parent.pop(key)

    def put(pointer: str, value: Any) -> None:
        parent, key = target(pointer)
        if isinstance(parent, list):
            parent.insert(key, value)
        else:
            parent[key] = value

    for operation in operations:
        match operation["op"]:
            case "add":
                put(operation["path"], operation["value"])
            case "remove":
                take(operation["path"])
            case "replace":
                take(operation["path"])
                put(operation["path"], operation["value"])
            case "move":
                put(operation["path"], take(operation["from"]))
            case other:
                raise AssertionError(other)
    return result


def make_set(**spec: Any) -> dict[str, Any]:
    template = {
        "spec": {"containers": [{"name": "worker", "image": "nginx", "args": ["$(LWS_LEADER_ADDRESS)"]}]}
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "vllm",
            "namespace": "default",
            "uid": "1",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template}, **spec},
    }


def container(name: str = "worker", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "vllm/vllm-openai", **more}


def make_pod(name: str, *containers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a pod as the StatefulSet controller creates it: a leader `vllm-0` or a worker `vllm-0-1`."""
    index = {"worker-index": "0"} if name.count("-") == 1 else {"group-index": "0", "group-key": "key"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                f"{PREFIX}/name": "vllm",
                **{f"{PREFIX}/{key}": value for key, value in index.items()},
            },
            "annotations": {f"{PREFIX}/size": "4"},
            **metadata,
        },
        "spec": {"subdomain": "vllm", "containers": list(containers or (container(),))},
    }


SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
PORT = {"name": "PORT", "value": "8080"}


PODS_TO_MUTATE = {
    "leader": make_pod("vllm-3"),
    "worker": make_pod("vllm-0-2"),
    "own env": make_pod("vllm-0-2", container(env=[SECRET, PORT, {"name": "EMPTY"}])),
    "null env": make_pod("vllm-0-2", container(env=None)),
    "empty env": make_pod("vllm-0-2", container(env=[])),
    "equal entries": make_pod("vllm-0-2", container(env=[PORT, SECRET, PORT, SECRET])),
    "own variable of ours": make_pod(
        "vllm-0-2", container(env=[PORT, {"name": "LWS_GROUP_SIZE", "value": "9"}, SECRET])
    ),
    "many containers": make_pod(
        "vllm-0-2", container("a", env=[PORT]), container("b"), container("c", env=[SECRET])
    ),
    "null annotations beside": make_pod("vllm-3", finalizers=None, ownerReferences=[{"uid": "x"}]),
    "unique subdomain": make_pod(
        "vllm-3", annotations={f"{PREFIX}/size": "4", f"{PREFIX}/subdomainPolicy": "UniquePerReplica"}
    ),
    "odd characters": make_pod(
        "vllm-3",
        container(env=[{"name": "A~B/C", "value": "“~0~1/”"}]),
        annotations={f"{PREFIX}/size": "4", "a~/b": "é"},
    ),
}


@pytest.mark.parametrize("name", PODS_TO_MUTATE)
async def test_patches_of_pods_match_admission(review: Review, name: str) -> None:
    obj = PODS_TO_MUTATE[name]
    expected = copy.deepcopy(obj)
    pod.admit(expected, "default")
    operations = operations_in(await review(MUTATE_POD, obj))
    assert operations
    assert patched(obj, operations) == expected


async def test_every_leader_of_hash_groups_gets_a_unique_key(review: Review) -> None:
    """The name of the pod is generated after admission."""
    annotations = {f"{PREFIX}/size": "4", f"{PREFIX}/group-identity": "Hash"}
    obj = make_pod("vllm-3", generateName="vllm-", annotations=annotations)
    del obj["metadata"]["name"]
    pods = [patched(obj, operations_in(await review(MUTATE_POD, obj))) for _ in range(2)]
    assert len({leader["metadata"]["labels"][f"{PREFIX}/group-key"] for leader in pods}) == 2
    for leader in pods:
        assert await review(MUTATE_POD, leader) == {"allowed": True}


async def test_patch_of_a_pod_is_minimal(review: Review) -> None:
    obj = make_pod("vllm-0-2", container(env=[SECRET, PORT], args=["serve"]), container("sidecar"))
    operations = operations_in(await review(MUTATE_POD, obj))
    env = [
        {"name": "LWS_LEADER_ADDRESS", "value": "vllm-0.vllm.default"},
        {"name": "LWS_GROUP_SIZE", "value": "4"},
        {"name": "LWS_WORKER_INDEX", "value": "2"},
    ]
    path = "/spec/containers/0/env"
    expected = [
        {"op": "add", "path": f"/metadata/labels/{PREFIX}~1worker-index", "value": "2"},
        *({"op": "add", "path": f"{path}/{index}", "value": entry} for index, entry in enumerate(env)),
        {"op": "add", "path": "/spec/containers/1/env", "value": env},
    ]
    assert sorted(operations, key=json.dumps) == sorted(expected, key=json.dumps)


async def test_an_admitted_pod_needs_no_patch(review: Review) -> None:
    obj = make_pod("vllm-3")
    pod.admit(obj, "default")
    assert await review(MUTATE_POD, obj) == {"allowed": True}


async def test_foreign_pods_are_not_changed(review: Review) -> None:
    obj = make_pod("web-0")
    del obj["metadata"]["labels"]
    assert await review(MUTATE_POD, obj) == {"allowed": True}


async def test_namespace_of_the_request_is_used_if_the_pod_has_none(review: Review) -> None:
    operations = operations_in(await review(MUTATE_POD, make_pod("vllm-3")))
    assert {"name": "LWS_LEADER_ADDRESS", "value": "vllm-3.vllm.default"} in operations[-1]["value"]


async def test_refused_pods_are_forbidden(review: Review) -> None:
    assert await review(MUTATE_POD, make_pod("vllm-3", annotations={})) == {
        "allowed": False,
        "status": {
            "code": 403,
            "reason": "Forbidden",
            "message": "size annotation is unexpectedly missing for pod vllm-3",
        },
    }


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
async def test_validation_allows_every_pod(review: Review, operation: str) -> None:
    obj = make_pod("vllm-3", annotations={})
    new, old = (None, obj) if operation == "DELETE" else (obj, obj)
    assert await review(VALIDATE_POD, new, old, operation) == {"allowed": True}


SETS_TO_MUTATE = {
    "no optional fields": make_set(),
    "nulls": make_set(rolloutStrategy=None, networkConfig=None),
    "parts": make_set(rolloutStrategy={"type": "RollingUpdate"}, networkConfig={"subdomainPolicy": None}),
    "deprecated policy": make_set(leaderWorkerTemplate={"size": 1, "restartPolicy": "Default"}),
}


@pytest.mark.parametrize("name", SETS_TO_MUTATE)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_patches_of_sets_match_defaulting(review: Review, name: str, operation: str) -> None:
    obj = SETS_TO_MUTATE[name]
    expected = copy.deepcopy(obj)
    leaderworkerset.default(expected)
    operations = operations_in(await review(MUTATE_SET, obj, obj if operation == "UPDATE" else None))
    assert operations
    assert all(operation["path"].startswith("/spec/") for operation in operations)
    assert patched(obj, operations) == expected


async def test_a_complete_set_needs_no_patch(review: Review) -> None:
    obj = make_set()
    leaderworkerset.default(obj)
    assert await review(MUTATE_SET, obj) == {"allowed": True}


async def test_a_valid_set_is_allowed(review: Review) -> None:
    obj = make_set()
    leaderworkerset.default(obj)
    assert await review(VALIDATE_SET, obj) == {"allowed": True}
    changed = copy.deepcopy(obj)
    changed["spec"]["replicas"] = 3
    assert await review(VALIDATE_SET, changed, obj) == {"allowed": True}


async def test_a_single_error_is_the_message(review: Review) -> None:
    obj = make_set(replicas=-1)
    assert await review(VALIDATE_SET, obj) == {
        "allowed": False,
        "status": {
            "code": 403,
            "reason": "Forbidden",
            "message": "spec.replicas: Invalid value: -1: replicas must be equal or greater than 0",
        },
    }


async def test_a_set_with_scheduling_is_refused_while_there_is_no_api_for_it(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
) -> None:
    """Upstream rejects such a set, too. Existing sets can be edited."""
    store = Store(lambda before, after: None, TABLES)
    gates = {"feature-gates": "WorkloadAwareScheduling=true"}
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(store, provider="kubernetes", **gates))
    review = reviewing(wire_kopf(registry)[0])
    new = make_set(scheduling={})
    store.unserved.add(API_VERSION)
    response = await review(VALIDATE_SET, new)
    assert response["status"]["message"] == f"spec.scheduling: Forbidden: {UNAVAILABLE}"
    assert (await review(VALIDATE_SET, {**new, "metadata": {**new["metadata"], "labels": {}}}, new))[
        "allowed"
    ]
    store.unserved.clear()
    assert (await review(VALIDATE_SET, new))["allowed"]


async def test_several_errors_are_a_list(review: Review) -> None:
    obj = make_set(replicas=-1)
    obj["spec"]["leaderWorkerTemplate"]["size"] = 0
    response = await review(VALIDATE_SET, obj)
    assert response["status"]["message"] == (
        "[spec.replicas: Invalid value: -1: replicas must be equal or greater than 0, "
        "spec.leaderWorkerTemplate.size: Invalid value: 0: size must be equal or greater than 1]"
    )


async def test_an_allowed_response_contains_warnings(review: Review) -> None:
    budget = {"partition": 0, "maxUnavailable": 0, "maxSurge": 0}
    old = make_set(rolloutStrategy={"type": "RollingUpdate", "rollingUpdateConfiguration": budget})
    leaderworkerset.default(old)
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 3
    response = await review(VALIDATE_SET, new, old)
    assert response["allowed"] is True
    assert response["warnings"] == leaderworkerset.warnings_in(new, old)
    assert len(response["warnings"]) == 1


async def test_warnings_depend_on_the_status(review: Review) -> None:
    down = {"groups": {"unsettled": [{"name": "vllm-0", "state": "NotReady"}]}}
    old = {**make_set(replicas=3), "status": down}
    response = await review(VALIDATE_SET, {**make_set(replicas=2), "status": down}, old)
    assert response["allowed"] is True
    assert [warning for warning in response["warnings"] if "kept are vllm-0, which are not ready" in warning]


async def test_deleting_a_set_is_allowed(review: Review) -> None:
    assert await review(VALIDATE_SET, None, make_set(replicas=-1), "DELETE") == {"allowed": True}
    assert await review(MUTATE_SET, None, make_set(), "DELETE") == {"allowed": True}


@pytest.mark.parametrize("field", ["spec", "labels", "annotations"])
async def test_invalid_objects_get_a_response(review: Review, field: str) -> None:
    obj = make_pod("vllm-3")
    (obj if field == "spec" else obj["metadata"])[field] = ["odd"]
    response = await review(MUTATE_POD, obj)
    assert response["allowed"] in (True, False)
    assert response.get("status", {}).get("code") in (None, 403)


def test_paths_match_the_webhook_configurations() -> None:
    assert {
        "mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset": LEADERWORKERSETS,
        "validate-leaderworkerset-x-k8s-io-v1-leaderworkerset": LEADERWORKERSETS,
        "mutate--v1-pod": PODS,
        "validate--v1-pod": PODS,
    } == ENDPOINTS


async def test_no_two_leaders_get_the_same_pod_group(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
) -> None:
    """The PodGroup of a former leader would decide the placement of the next leader."""
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(provider="kubernetes"))
    serve, _ = wire_kopf(registry)
    leader = make_pod("vllm-0", container())
    request = {
        "uid": "review-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "object": leader,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    names = set()
    for _round in range(3):
        answer = json.loads((await reviewed(serve, MUTATE_POD, ENDPOINTS[MUTATE_POD], body.encode())).body)
        admitted = patched(leader, operations_in(answer["response"]))
        names.add(admitted["spec"]["schedulingGroup"]["podGroupName"])
    assert len(names) == 3
    assert all(name.startswith("vllm-0-") for name in names)
    gate = {"feature-gates": "WorkloadAwareScheduling=true"}
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(provider="kubernetes", **gate))
    serve, _ = wire_kopf(registry)
    answer = json.loads((await reviewed(serve, MUTATE_POD, ENDPOINTS[MUTATE_POD], body.encode())).body)
    admitted = patched(leader, operations_in(answer["response"]))
    assert "schedulingGroup" not in admitted["spec"], "with the gate, only spec.scheduling makes gangs"


async def test_validation_depends_on_sibling_sets_and_the_gang_scheduler(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
) -> None:
    store = Store(lambda before, after: None, TABLES)
    store.put(builders.make_set("vllm-1"))
    store.put(builders.make_set("vllm-0", namespace="elsewhere"))
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(store, provider="volcano"))
    serve, _ = wire_kopf(registry)

    async def ask(webhook: str, new: dict[str, Any]) -> dict[str, Any]:
        resource = ENDPOINTS[webhook]
        request = {
            "uid": "review-1",
            "resource": {"group": resource.group, "version": "v1", "resource": resource.plural},
            "operation": "CREATE",
            "namespace": "default",
            "object": new,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = await reviewed(serve, webhook, resource, json.dumps(body).encode())
        response: dict[str, Any] = json.loads(answer.body)["response"]
        return response

    refused = await ask(VALIDATE_SET, make_set(startupPolicy="LeaderReady"))
    assert refused["allowed"] is False
    assert "its group 1 would need a StatefulSet or Service vllm-1" in refused["status"]["message"]
    assert "vllm-0" not in refused["status"]["message"], "that set is in another namespace"
    assert refused["warnings"][0].startswith("spec.startupPolicy: LeaderReady: ")

    pod_of_gang = make_pod("vllm-0", container())
    admitted = patched(pod_of_gang, operations_in(await ask(MUTATE_POD, pod_of_gang)))
    assert admitted["metadata"]["annotations"]["scheduling.k8s.io/group-name"].startswith("vllm-0-")


READY_NODE = {
    "metadata": {"name": "node-1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
CORDONED_NODE = {**READY_NODE, "spec": {"unschedulable": True}}
PREFERS, MUST, ANYWHERE = "preferredDuring", "requiredDuring", ""


async def test_pods_of_a_set_of_another_controller_do_not_return_to_nodes() -> None:
    store = Store(lambda before, after: None, TABLES)
    lws = builders.make_set(
        annotations={NODE_RETURN_ANNOTATION: "Preferred"}, managedBy="example.com/another"
    )
    former = builders.make_leader_pod(lws)
    former["spec"] = {"nodeName": "node-1"}
    for obj in (lws, former):
        store.put(obj)
    store.drop({**former, "metadata": {**former["metadata"], "resourceVersion": "9999"}})
    assert store.last_node("default", "demo-0") == "node-1"

    async def read(name: str) -> dict[str, Any]:
        raise AssertionError(name)

    assert await former_node(store, read, former, "default") is None


@pytest.mark.parametrize(
    ("policy", "excepted", "read", "expected"),
    [
        pytest.param("Preferred", "", None, PREFERS, id="preferred, without a read"),
        pytest.param("Preferred", "node-1", None, ANYWHERE, id="preferred, but excepted"),
        pytest.param("Required", "", READY_NODE, MUST, id="required"),
        pytest.param("Required", "node-2, node-1", None, ANYWHERE, id="required, but excepted"),
        pytest.param("Required", "node-2", CORDONED_NODE, PREFERS, id="cordoned"),
        pytest.param("Required", "", NotFound(404, "NotFound", "no such node"), ANYWHERE, id="gone"),
        pytest.param("Required", "", Forbidden(403, "Forbidden", "no"), PREFERS, id="not to be read"),
        pytest.param("Required", "", TimeoutError(), PREFERS, id="not read in time"),
        pytest.param("Always", "", None, ANYWHERE, id="a value of a later release"),
        pytest.param(None, "", None, ANYWHERE, id="not requested"),
    ],
)
async def test_a_recreated_pod_returns_to_its_node_if_its_set_requests_it(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
    policy: str | None,
    excepted: str,
    read: dict[str, Any] | Exception | None,
    expected: str,
) -> None:
    """Every replica knows the node from its own store, and reads it only if the pod must return to it."""
    store = Store(lambda before, after: None, TABLES)
    annotations = {NODE_RETURN_ANNOTATION: policy, NODE_RETURN_EXCEPT_ANNOTATION: excepted}
    lws = builders.make_set(annotations={name: value for name, value in annotations.items() if value})

    class Nodes:
        async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
            assert (kind, name) == ("Node", "node-1") and read is not None, "no request is sent"
            if isinstance(read, Exception):
                raise read
            return read

    former = builders.make_leader_pod(lws)
    former["spec"] = {"nodeName": "node-1"}
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(store, cluster=Nodes()))
    serve, _ = wire_kopf(registry)
    store.put(lws)
    store.put(former)
    store.drop({**former, "metadata": {**former["metadata"], "resourceVersion": "9999"}})
    pod = {**former, "metadata": {**former["metadata"], "uid": ""}, "spec": {"containers": []}}
    request = {
        "uid": "review-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = json.loads((await reviewed(serve, MUTATE_POD, PODS, json.dumps(body).encode())).body)
    patch = base64.b64decode(answer["response"].get("patch", "")).decode()
    assert [term for term in (PREFERS, MUST) if term in patch] == [term for term in (expected,) if term]
    assert ('"node-1"' in patch) == bool(expected)


# --- The gate of a leader whose former group still exists ---------------------------------------------------


class Former:
    """A group whose leader is being replaced, as the store of one replica shows it."""

    def __init__(self) -> None:
        self.is_current = True
        self.store = Store(lambda before, after: None, TABLES, lambda: self.is_current)
        self.lws = builders.make_set(size=3)
        self.leader = builders.make_leader_pod(self.lws)
        self.workers = builders.make_worker_statefulset(self.leader)
        self.worker = builders.make_worker_pod(self.workers)
        for obj in (self.lws, self.leader, self.workers, self.worker):
            self.store.put(obj)
        self._gates = LeaderGates(self.store, lambda: NO_SCHEDULER, spec_fault)

    def end(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.store.drop({**obj, "metadata": {**obj["metadata"], "resourceVersion": "9999"}})

    def gates(self, pod: dict[str, Any] | None = None, **metadata: Any) -> bool:
        """Return whether a new pod gets a gate. pod: the next leader by default."""
        new = pod or {**self.leader, "metadata": {**self.leader["metadata"], "uid": "", **metadata}}
        return self._gates.may_have_former_group(new, "default")


def test_a_leader_is_gated_until_its_former_group_is_deleted() -> None:
    former = Former()
    assert former.gates(), "this stream has not shown the end of the former leader yet"
    former.end(former.leader)
    assert former.gates(), "the StatefulSet may still create workers"
    former.end(former.workers)
    assert former.gates(), "a worker is left"
    former.end(former.worker)
    assert not former.gates()


def test_former_workers_are_found_without_their_labels() -> None:
    former = Former()
    unlabelled = {**former.worker["metadata"], "labels": {NAME_LABEL: "demo"}, "resourceVersion": "5000"}
    former.store.put({**former.worker, "metadata": unlabelled})
    former.end(former.leader)
    assert former.gates()
    terminating = {
        **unlabelled,
        "resourceVersion": "6000",
        "deletionTimestamp": "2026-03-01T11:59:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    former.store.put({**former.worker, "metadata": terminating})
    former.end(former.workers)
    assert former.gates(), "only its owner shows its group"


def test_a_leader_is_gated_while_workers_without_an_owner_are_left() -> None:
    """The former leader was deleted with `--cascade=orphan`."""
    former = Former()
    former.end(former.leader)
    for obj in (former.workers, former.worker):
        metadata = {**obj["metadata"], "ownerReferences": [], "resourceVersion": "5000"}
        former.store.put({**obj, "metadata": metadata})
    assert former.gates()
    former.end(former.workers)
    assert former.gates()
    former.end(former.worker)
    assert not former.gates()


def test_a_replica_with_a_stale_store_gates_every_leader() -> None:
    former = Former()
    former.end(former.leader, former.workers, former.worker)
    former.is_current = False
    assert former.gates()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"managedBy": "example.com/another"}, id="another controller runs the set"),
        pytest.param({"spread": "zones"}, id="a field of a later release"),
        pytest.param({"groupIdentity": "Name"}, id="a choice of a later release"),
        pytest.param({"scheduling": {}}, id="a field that no scheduler serves"),
    ],
)
@pytest.mark.parametrize("is_current", [True, False])
def test_a_leader_of_a_set_that_is_left_alone_gets_no_gate(spec: dict[str, Any], is_current: bool) -> None:
    former = Former()
    assert former.gates()
    metadata = {**former.lws["metadata"], "resourceVersion": "5000"}
    former.store.put({**former.lws, "metadata": metadata, "spec": {**former.lws["spec"], **spec}})
    former.is_current = is_current
    assert not former.gates(), "no pass would lift it"


@pytest.mark.parametrize(
    ("spec", "is_gated"),
    [
        pytest.param({}, True, id="run"),
        pytest.param({"spread": "zones"}, False, id="a field of a later release"),
        pytest.param({"scheduling": {}}, False, id="a field that no scheduler serves"),
        pytest.param(None, False, id="orphaned"),
        pytest.param("unknown", True, id="a set that is not known yet"),
    ],
)
async def test_a_hash_leader_is_gated_only_if_a_pass_lifts_its_gate(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
    spec: dict[str, Any] | str | None,
    is_gated: bool,
) -> None:
    store = Store(lambda before, after: None, TABLES)
    if isinstance(spec, dict):
        store.put(builders.make_set("vllm", groupIdentity="Hash", **spec))
    elif spec is None:
        metadata = {"name": "vllm", "namespace": "default", "uid": "u-1", "resourceVersion": "1"}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}}
        store.put({**deployment, "metadata": {**metadata, "labels": {NAME_LABEL: "vllm"}}})
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(store))
    serve, _ = wire_kopf(registry)
    annotations = {f"{PREFIX}/size": "4", f"{PREFIX}/group-identity": "Hash"}
    obj = make_pod("vllm-3", container(), generateName="vllm-", annotations=annotations)
    del obj["metadata"]["name"]
    admitted = patched(obj, operations_in(await reviewing(serve)(MUTATE_POD, obj)))
    assert (admitted["spec"].get("schedulingGates") == [{"name": GROUP_REPLACEMENT_GATE}]) == is_gated
    cost = "controller.kubernetes.io/pod-deletion-cost"
    assert (cost in admitted["metadata"]["annotations"]) == is_gated
    assert admitted["metadata"]["labels"][f"{PREFIX}/group-key"], "all other fields are set"


async def test_the_spec_is_read_once_per_generation_for_all_leaders(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a large spec takes many times as long as admitting a pod."""
    read: list[int] = []

    def spec_fault(lws: dict[str, Any]) -> str:
        read.append(lws["metadata"]["generation"])
        return ""

    monkeypatch.setattr(registration, "spec_fault", spec_fault)
    store = Store(lambda before, after: None, TABLES)
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(store))
    review = reviewing(wire_kopf(registry)[0])
    annotations = {f"{PREFIX}/size": "4", f"{PREFIX}/group-identity": "Hash"}
    for generation in (1, 2):
        lws = builders.make_set("vllm", generation=generation, groupIdentity="Hash")
        store.put({**lws, "metadata": {**lws["metadata"], "resourceVersion": str(9000 + generation)}})
        for name in ("vllm-a", "vllm-b"):
            assert (await review(MUTATE_POD, make_pod(name, container(), annotations=annotations)))["allowed"]
    former = Former()
    for obj in (former.lws, former.leader):
        store.put(obj)
    for _ in range(2):
        leader = {**former.leader, "spec": {"containers": [container()]}}
        assert (await review(MUTATE_POD, leader))["allowed"]
    assert read == [1, 2, former.lws["metadata"]["generation"]]


def test_a_leader_without_a_set_gets_no_gate() -> None:
    orphaned = Former()
    orphaned.end(orphaned.lws)
    assert not orphaned.gates(), "the set is gone, and has left its StatefulSet"
    orphaned.is_current = False
    assert orphaned.gates(), "the set may only not be known yet"


def test_workers_orphans_and_leaders_of_groups_of_one_get_no_gate() -> None:
    former = Former()
    assert not former.gates(ownerReferences=[])
    assert not former.gates(former.worker)
    single = {**former.leader["metadata"]["annotations"], SIZE_ANNOTATION: "1"}
    former.store.put(
        {
            **former.leader,
            "metadata": {**former.leader["metadata"], "annotations": single, "resourceVersion": "5000"},
        }
    )
    former.end(former.workers, former.worker)
    assert not former.gates(), "only its own former pod is left, which had no workers"


def test_leaders_of_a_set_with_the_name_of_a_leader_are_not_its_former_workers() -> None:
    """Both sets are valid as long as their groups have one pod. The gate would never be lifted."""
    former, namesake = Former(), builders.make_set(size=1)
    former.end(former.leader, former.workers, former.worker)
    namesake["metadata"] |= {"name": "demo-0", "uid": "u-other"}
    for obj in (namesake, builders.make_leader_statefulset(namesake), builders.make_leader_pod(namesake)):
        former.store.put(obj)
    assert not former.gates()


def test_a_leader_with_a_node_name_is_rejected_until_its_former_group_is_deleted() -> None:
    """The API server rejects a gate together with a node name."""
    raw = {**Former().leader, "spec": {"containers": [container()], "nodeName": "node-1"}}
    with pytest.raises(Refused, match="pod demo-0 is admitted once the pods of its former group are deleted"):
        pod.admit(raw, "default", has_former=True)
    pod.admit(raw, "default")
    assert "schedulingGates" not in raw["spec"]


async def test_the_gate_is_added_to_those_of_the_template(
    wire_kopf: Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]],
) -> None:
    former = Former()
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_over(former.store))
    serve, _ = wire_kopf(registry)
    spec = {"containers": [container()], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    pod = {**former.leader, "spec": spec}
    for is_gone, gates in (
        (False, [{"name": "kueue.x-k8s.io/admission"}, {"name": GROUP_REPLACEMENT_GATE}]),
        (True, spec["schedulingGates"]),
    ):
        if is_gone:
            former.end(former.leader, former.workers, former.worker)
        request = {"uid": "1", "resource": {"group": "", "version": "v1", "resource": "pods"}}
        request |= {"operation": "CREATE", "namespace": "default", "object": pod}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = json.loads((await reviewed(serve, MUTATE_POD, PODS, json.dumps(body).encode())).body)
        assert patched(pod, operations_in(answer["response"]))["spec"]["schedulingGates"] == gates
