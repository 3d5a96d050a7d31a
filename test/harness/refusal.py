"""Have the API server reject writes in a namespace for a while, by a ValidatingAdmissionPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lws_api.leaderworkerset.v1 import PREWARM_LABEL
from test.harness.audit import MANAGER
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import CommandError

Object = dict[str, Any]

MESSAGE = "nobody may do that today"
_ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def statefulsets_refused(world: World, name: str) -> Iterator[None]:
    """Reject updates of StatefulSets by the manager. A StatefulSet of this name must exist."""
    rule = {"apiGroups": ["apps"], "operations": ["UPDATE"], "resources": ["statefulsets"]}
    patch = ("patch", "statefulset", name, "--type=merge", "-p", '{"metadata":{"labels":{"any":"thing"}}}')
    with _refused(world, rule, f"request.userInfo.username != '{MANAGER}'", (*patch, f"--as={MANAGER}")):
        yield


@contextmanager
def deletions_refused(world: World, pod: str) -> Iterator[None]:
    """Reject deletions of pods by any client. A pod of this name must exist."""
    rule = {"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}
    with _refused(world, rule, "false", ("delete", "pod", pod, "--wait=false")):
        yield


@contextmanager
def prewarm_pods_refused(world: World) -> Iterator[None]:
    """Reject pods of Jobs that pull images."""
    rule = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    allows = f"!has(object.metadata.labels) || !('{PREWARM_LABEL}' in object.metadata.labels)"
    with _refused(world, rule, allows, ("run", "probe", "--image=x", f"--labels={PREWARM_LABEL}=x")):
        yield


@contextmanager
def _refused(world: World, rule: Object, allows: str, attempt: tuple[str, ...]) -> Iterator[None]:
    policy = f"refusal-{world.namespace}"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    refusal: Object = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": selector,
                "resourceRules": [{"apiVersions": ["v1"], **rule}],
            },
            "validations": [{"expression": allows, "message": MESSAGE}],
        },
    }
    binding: Object = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }
    world.kubectl(
        "create", "-f", "-", input={"apiVersion": "v1", "kind": "List", "items": [refusal, binding]}
    )
    try:
        eventually("it is refused", lambda: _answer(world, attempt), lambda answer: MESSAGE in answer)
        yield
    finally:
        world.kubectl("delete", "validatingadmissionpolicybinding", policy)
        world.kubectl("delete", "validatingadmissionpolicy", policy)
    eventually("it is allowed again", lambda: _answer(world, attempt), lambda answer: MESSAGE not in answer)


def _answer(world: World, attempt: tuple[str, ...]) -> str:
    """Return what kubectl prints if a dry run of the attempt is rejected; empty if it is not."""
    try:
        world.kubectl(*attempt, "--dry-run=server")
    except CommandError as refused:
        return str(refused)
    return ""
