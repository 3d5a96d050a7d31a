"""An API server that refuses: what the manager may not write any more, until it may again.

In: a namespace. Out: a ValidatingAdmissionPolicy that is in force meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from test.harness.audit import MANAGER
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import CommandError

Object = dict[str, Any]

SAID = "nobody may do that today"
_ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def statefulsets_refused(world: World, name: str) -> Iterator[None]:
    """The manager cannot update StatefulSets of the namespace; one of this name must be there."""
    rule = {"apiGroups": ["apps"], "operations": ["UPDATE"], "resources": ["statefulsets"]}
    patch = ("patch", "statefulset", name, "--type=merge", "-p", '{"metadata":{"labels":{"any":"thing"}}}')
    with _refused(world, rule, f"request.userInfo.username != '{MANAGER}'", (*patch, f"--as={MANAGER}")):
        yield


@contextmanager
def deletions_refused(world: World, pod: str) -> Iterator[None]:
    """Nobody can delete pods of the namespace; one of this name must be there."""
    rule = {"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}
    with _refused(world, rule, "false", ("delete", "pod", pod, "--wait=false")):
        yield


@contextmanager
def _refused(world: World, rule: Object, allows: str, attempt: tuple[str, ...]) -> Iterator[None]:
    policy = f"refusal-{world.namespace}"
    place = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    refusal: Object = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": place,
                "resourceRules": [{"apiVersions": ["v1"], **rule}],
            },
            "validations": [{"expression": allows, "message": SAID}],
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
        eventually("it is refused", lambda: _said(world, attempt), lambda said: SAID in said)
        yield
    finally:
        world.kubectl("delete", "validatingadmissionpolicybinding", policy)
        world.kubectl("delete", "validatingadmissionpolicy", policy)
    eventually("it is allowed again", lambda: _said(world, attempt), lambda said: SAID not in said)


def _said(world: World, attempt: tuple[str, ...]) -> str:
    """What would be answered."""
    try:
        world.kubectl(*attempt, "--dry-run=server")
    except CommandError as refused:
        return str(refused)
    return ""
