"""Set the API server's defaults in pod and claim templates, which have the form of `lws.kube.typed`.

Pods get more defaults than the templates they are created from; those are not included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from lws.kube.quantities import MILLI, canonical

Fields = dict[str, Any]

_PLAIN: Mapping[str, Mapping[str, Any]] = {
    "AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "kind": "Shared",
        "readOnly": False,
    },
    "ConfigMapVolumeSource": {"defaultMode": 0o644},
    "ContainerPort": {"protocol": "TCP"},
    "DownwardAPIVolumeSource": {"defaultMode": 0o644},
    "FileKeySelector": {"optional": False},
    "GRPCAction": {"service": ""},
    "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "HostPathVolumeSource": {"type": ""},
    "ISCSIVolumeSource": {"iscsiInterface": "default"},
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "PersistentVolumeClaimStatus": {"phase": "Pending"},
    "Probe": {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
    "RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "SecretVolumeSource": {"defaultMode": 0o644},
    "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
}

_LISTS = ("limits", "requests", "overhead", "capacity", "allocatedResources")
"""Fields with resource lists, whose quantities the API server rounds up to thousandths."""

_RETIRED_ANNOTATIONS = (
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-container-statuses",
)
"""Annotations that preceded `initContainers`, which the API server still removes from templates."""

_DOMAIN_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])"
_PATH_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?P<host>{_HOST}(?::[0-9]+)?)/)?(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?"
    r"(?P<digest>@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?"
)


def _plain(values: Mapping[str, Any]) -> Callable[[Fields], None]:
    items = tuple(values.items())

    def fill(fields: Fields) -> None:
        for key, value in items:
            if fields.get(key) is None:
                fields[key] = value

    return fill


def _pod_template(template: Fields) -> None:
    metadata = template["metadata"]
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict) and not annotations.keys().isdisjoint(_RETIRED_ANNOTATIONS):
        remaining = {key: value for key, value in annotations.items() if key not in _RETIRED_ANNOTATIONS}
        others = {key: value for key, value in metadata.items() if key != "annotations"}
        template["metadata"] = others | ({"annotations": remaining} if remaining else {})


_POD_SPEC = _plain(
    {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }
)


def _pod_spec(spec: Fields) -> None:
    _POD_SPEC(spec)
    spec.setdefault("securityContext", {})
    # `serviceAccount` is the old name of `serviceAccountName`. Both are stored; the new one takes precedence.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    _resource_lists(spec)


_CONTAINER = _plain({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})


def _container(container: Fields) -> None:
    _CONTAINER(container)
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image"))


def _volume(volume: Fields) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _image_volume(source: Fields) -> None:
    if "pullPolicy" not in source:
        source["pullPolicy"] = _pull_policy(source.get("reference"))


def _claim(claim: Fields) -> None:
    # The API server converts claims to its own type and back.
    claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _projected_volume(source: Fields) -> None:
    source.setdefault("defaultMode", 0o644)
    # No other list is always written and may be empty. Stored objects do not distinguish [] from null.
    source["sources"] = source["sources"] or None


def _resource_lists(fields: Fields) -> None:
    for key in _LISTS:
        if isinstance(quantities := fields.get(key), dict):
            fields[key] = {name: _rounded(value) for name, value in quantities.items()}


def _rounded(value: Any) -> Any:
    try:
        return canonical(value, MILLI) if isinstance(value, str) else value
    except ValueError:
        return value


def _pull_policy(image: Any) -> str:
    if not isinstance(image, str):
        return "IfNotPresent"
    # The cache keeps whole names, and a user may submit any text as one.
    tag = _cached_tag(image) if len(image) <= _LONGEST_CACHED else _tag(image)
    return "Always" if tag == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """Return the tag of an image: `latest` without tag and digest, "" for only a digest or no image name."""
    match = _IMAGE.fullmatch(image)
    if match is None or re.fullmatch(r"[a-f0-9]{64}", image) or len(match["path"]) > 255:
        return ""
    return match["tag"] or ("" if match["digest"] else "latest")


_cached_tag = lru_cache(maxsize=1024)(_tag)
_LONGEST_CACHED = 1024


DEFAULTS: Mapping[str, Callable[[Fields], None]] = MappingProxyType(
    {name: _plain(values) for name, values in _PLAIN.items()}
    | {
        "Container": _container,
        "EphemeralContainer": _container,
        "ImageVolumeSource": _image_volume,
        "PersistentVolumeClaim": _claim,
        "PodSpec": _pod_spec,
        "PodTemplateSpec": _pod_template,
        "ProjectedVolumeSource": _projected_volume,
        "ResourceRequirements": _resource_lists,
        "Volume": _volume,
        "VolumeResourceRequirements": _resource_lists,
    }
)
"""Name of a type → function that sets defaults of a struct in place, the `finish` of a `Normaliser`."""
