"""Model how an API server stores an object: set defaults and bookkeeping fields, and drop unknown fields.

The model covers the kinds that a set creates, and only the defaults that could affect a comparison.
"""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

from lws.kube.quantities import canonical
from lws.runtime.actions import Verbatim

_LIST_KEYS = {
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "schedulingGates": ("name",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
# The API server tracks no ownership of the fields that identify the object.
_UNTRACKED = {
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
}
# Typed fields that typed clients omit if they are zero.
_OMITTED = {
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "limits",
    "nodeSelector",
    "requests",
    "stdin",
    "tolerations",
    "tty",
}
_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
}
_POD = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}

_versions = itertools.count(100)


def stored(obj: dict[str, Any], uid: str = "", **metadata: Any) -> dict[str, Any]:
    """Return `obj` as stored after a create or update by `lws`.

    Only Services and PodDisruptionBudgets get managedFields.
    """
    result = _json(obj)
    _complete(result)
    name = result["metadata"]["name"]
    server_fields: dict[str, Any] = {
        "uid": uid or f"uid-of-{result['kind']}-{name}",
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if result["kind"] in ("Service", "PodDisruptionBudget"):
        entry = {"manager": "lws", "operation": "Update", "fieldsV1": {"f:spec": {"f:selector": {}}}}
        server_fields["managedFields"] = [entry]
    result["metadata"] |= server_fields | metadata
    return result


def applied(intent: dict[str, Any], uid: str = "", **metadata: Any) -> dict[str, Any]:
    """Return `intent` after a server-side apply by `lws`; MaxUnavailableStatefulSet is disabled."""
    result = stored(intent, uid, **{"generation": 1, **metadata})
    if result["kind"] == "StatefulSet":
        result["spec"]["updateStrategy"]["rollingUpdate"].pop("maxUnavailable", None)
    result["metadata"]["managedFields"] = [
        {
            "manager": "lws",
            "operation": "Apply",
            "apiVersion": intent["apiVersion"],
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields_of(intent),
        }
    ]
    return result


def fields_of(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the `fieldsV1` of an apply of `value`: the fields that the apply owns afterwards."""
    if isinstance(value, dict):
        fields = {
            f"f:{key}": fields_of(below, (*path, key))
            for key, below in value.items()
            if (*path, key) not in _UNTRACKED
        }
        own = {".": {}} if fields and path not in {(), ("metadata",), ("spec",)} else {}
        return own | fields
    if isinstance(value, list) and path[-1] in _LIST_KEYS:
        fields = {}
        for element in value:
            keys = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in _LIST_KEYS[path[-1]]}
            fields[f"k:{json.dumps(keys, separators=(',', ':'))}"] = fields_of(element, (*path, "[]"))
        return fields
    return {}


def _complete(obj: dict[str, Any]) -> None:
    if obj["kind"] == "Service":
        obj["spec"] |= {"type": "ClusterIP", "clusterIPs": ["None"], "sessionAffinity": "None"}
    if obj["kind"] != "StatefulSet":
        return
    spec = obj["spec"]
    spec |= {
        "revisionHistoryLimit": 10,
        "podManagementPolicy": spec.get("podManagementPolicy", "OrderedReady"),
    }
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    spec["persistentVolumeClaimRetentionPolicy"] = retention | spec.get(
        "persistentVolumeClaimRetentionPolicy", {}
    )
    _complete_pod(spec["template"]["spec"])
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending"}


def _complete_pod(pod: dict[str, Any]) -> None:
    for field, value in _POD.items():
        pod.setdefault(field, copy.deepcopy(value))
    for container in (*pod["containers"], *(pod.get("initContainers") or ())):
        for field, value in _CONTAINER.items():
            container.setdefault(field, copy.deepcopy(value))
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")
        for amounts in container["resources"].values():
            amounts.update({name: canonical(amount) for name, amount in amounts.items()})


def _json(value: Any) -> Any:
    """Return a copy as the API server does: verbatim text decoded, nulls and empty fields removed."""
    if isinstance(value, Verbatim):
        return json.loads(value.text)
    if isinstance(value, dict):
        return {
            key: _json(below)
            for key, below in value.items()
            if below is not None and (below or key not in _OMITTED)
        }
    if isinstance(value, list | tuple):
        return [_json(below) for below in value]
    return value
