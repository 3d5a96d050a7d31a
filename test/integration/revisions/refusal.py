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

SAID = "nobody may change StatefulSets today"
_ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def statefulsets_refused(world: World, name: str) -> Iterator[None]:
    """The manager cannot update StatefulSets of the namespace; one of this name must be there."""
    policy = f"refusal-{world.namespace}"
    place = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["statefulsets"],
    }
    refusal: Object = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy},
        "spec": {
            "matchConstraints": {"namespaceSelector": place, "resourceRules": [rule]},
            "validations": [{"expression": f"request.userInfo.username != '{MANAGER}'", "message": SAID}],
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
        eventually("it is refused", lambda: _attempt(world, name), lambda said: SAID in said)
        yield
    finally:
        world.kubectl("delete", "validatingadmissionpolicybinding", policy)
        world.kubectl("delete", "validatingadmissionpolicy", policy)
    eventually("it is allowed again", lambda: _attempt(world, name), lambda said: not said)


def _attempt(world: World, name: str) -> str:
    """What the manager would be told."""
    patch = ("patch", "statefulset", name, "--type=merge", "-p", '{"metadata":{"labels":{"any":"thing"}}}')
    try:
        world.kubectl(*patch, "--dry-run=server", f"--as={MANAGER}")
    except CommandError as refused:
        return str(refused)
    return ""
