"""Random roles of DisaggregatedSets: any field of every type in the table, in any order, with any value.

The roles are as a definition without pruning would store them.
"""

from __future__ import annotations

import random
from typing import Any

from lws.leaderworkerset.revisions.encoding import TYPES

_TEXTS = (
    "",
    "a",
    "prefill",
    "x-1",
    "0",
    '<a href="b">&',
    "\\ \n\r\t\b\f\x00\x01\x1f\x7f",
    "\u2028é漢\u2029😀",
)
_NUMBERS = (0, 1, -1, 8080, 2**31 - 1)
_LARGE_NUMBERS = (0, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
_LARGE = frozenset({"fsGroup", "runAsGroup", "runAsUser", "seconds", "terminationGracePeriodSeconds"})
_SUFFIXES = ("", "", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e0", "e10")
_WHOLES = (
    "0",
    "1",
    "007",
    "1000",
    "1024",
    "1500",
    "2048",
    "16384",
    "999999999999999999",
    "1234567890123456789",
)
_TIMES = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6+02:00", "0001-01-01T00:00:00Z")
_PRUNED = ("name", "namespace", "labels", "annotations", "finalizers")
_MANY = frozenset({"Volume", "VolumeProjection"})
# The release of upstream that `go_keys.json` was made with has the fields of Kubernetes 1.36.
_LATER = {
    "ClusterTrustBundleProjection": {"user"},
    "ConfigMapVolumeSource": {"defaultUser"},
    "DownwardAPIVolumeFile": {"user"},
    "DownwardAPIVolumeSource": {"defaultUser"},
    "EmptyDirVolumeSource": {"mode"},
    "GRPCAction": {"mode"},
    "HTTPGetAction": {"protocol"},
    "KeyToPath": {"user"},
    "PersistentVolumeClaimStatus": {"healthStatus"},
    "PodCertificateProjection": {"user"},
    "PodSpec": {"evictionResponders"},
    "ProjectedVolumeSource": {"defaultUser"},
    "SecretVolumeSource": {"defaultUser"},
    "ServiceAccountTokenProjection": {"user"},
    "VolumeMount": {"bindMountOptions"},
}


def random_roles(chance: random.Random) -> list[dict[str, Any]]:
    """Return one to three roles, each with a name and a template."""
    names = chance.sample(("prefill", "decode", "router", "a-1"), chance.choice((1, 2, 2, 3)))
    return [{"name": name, "template": _struct(chance, "LeaderWorkerTemplate", 0)} for name in names]


def _struct(chance: random.Random, name: str, depth: int) -> dict[str, Any]:
    fields = [
        (field, code)
        for field, code in TYPES[name].items()
        if field not in _LATER.get(name, ()) and (name != "ObjectMeta" or field in _PRUNED)
    ]
    chance.shuffle(fields)
    likely = 0.1 if name in _MANY else 0.6 if depth < 2 else 0.25
    struct = {
        key: None if chance.random() < 0.05 else _value(chance, code.lstrip("*=?"), key, depth)
        for key, code in fields
        if chance.random() < likely
    }
    return {**struct, "unknown": {"to": "Go"}} if chance.random() < 0.05 else struct


def _value(chance: random.Random, code: str, key: str, depth: int) -> Any:
    if code[0] == "[":
        return [_value(chance, code[1:-1], key, depth) for _ in range(chance.choice((0, 1, 1, 2)))]
    if code[0] == "{":
        return {
            chance.choice(_TEXTS): _value(chance, code[1:-1], key, depth) for _ in range(chance.randint(0, 3))
        }
    if code == "q":
        return _quantity(chance)
    choices: dict[str, tuple[Any, ...]] = {
        "s": _TEXTS,
        "b": (True, False),
        "i": _LARGE_NUMBERS if key in _LARGE else _NUMBERS,
        "l": _LARGE_NUMBERS if key in _LARGE else _NUMBERS,
        "x": (0, 80, -5, "", "http", "25%", "a<b"),
        "t": _TIMES,
    }
    return chance.choice(choices[code]) if code in choices else _struct(chance, code, depth + 1)


def _quantity(chance: random.Random) -> str | int:
    if chance.random() < 0.2:
        return chance.choice((0, 1, 1000, 1024, 16384, 2**63 - 1, -1))
    fraction = chance.choice(("", "", ".5", ".500", ".0000000001", ".123456789012"))
    sign = chance.choice(("", "", "", "+", "-"))
    return f"{sign}{chance.choice(_WHOLES)}{fraction}{chance.choice(_SUFFIXES)}"
