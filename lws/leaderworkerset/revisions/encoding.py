"""Encode the part of a set that a rollout depends on, and decide when two encodings mean the same.

In: the spec of a LeaderWorkerSet in any spelling. Out: upstream's canonical text, byte for byte; the key, its
hash; and the form in which equal specs are equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from lws.kube.defaults import DEFAULTS
from lws.kube.typed import POD_TYPES, Fields, Finish, Normaliser, Table
from lws.leaderworkerset import fields
from lws.runtime.actions import Object

PATCH_MARKER = "$patch"

TYPES: Table = {
    **POD_TYPES,
    "LeaderWorkerTemplate": {
        "leaderTemplate": "*PodTemplateSpec",
        "workerTemplate": "=PodTemplateSpec",
        "size": "*i",
        "restartPolicy": "s",
        "subGroupPolicy": "*SubGroupPolicy",
        "volumeClaimTemplates": "[PersistentVolumeClaim]",
        "persistentVolumeClaimRetentionPolicy": "*StatefulSetPersistentVolumeClaimRetentionPolicy",
    },
    "NetworkConfig": {"subdomainPolicy": "*s"},
    "SubGroupPolicy": {"subGroupPolicyType": "*s", "subGroupSize": "*i"},
}
"""The types of what revisions record, the fields of each in the order in which the original declares them."""

NOT_IN_PODS = ("restartPolicy", "persistentVolumeClaimRetentionPolicy")
"""Recorded, but no running pod depends on them: an edit takes effect at once and rolls nothing."""


NOT_RECORDED = ("maxGroupRestarts",)
"""Neither recorded nor compared, as in the original: it takes effect at once, on every revision."""

LIVE = (*NOT_IN_PODS, *NOT_RECORDED)
"""What of a template takes effect at once, recorded or not."""


def _default(field: fields.Field) -> Finish:
    return lambda struct: struct.setdefault(field.name, field.stored_default)


def _template_defaults(template: Fields) -> None:
    _default(fields.SIZE)(template)
    for key in NOT_IN_PODS:
        template.pop(key, None)


_AS_WRITTEN = Normaliser(TYPES)
_AS_STORED = Normaliser(
    TYPES,
    {
        **DEFAULTS,
        "LeaderWorkerTemplate": _template_defaults,
        "NetworkConfig": _default(fields.SUBDOMAIN_POLICY),
        "SubGroupPolicy": _default(fields.SUBGROUP_TYPE),
    },
)

_ESCAPES = (
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("&", "\\u0026"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)

_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 2166136261, 16777619, 0xFFFFFFFF


def canonical_text(spec: Object) -> str:
    """`data` of the ControllerRevision for this spec: a strategic merge patch that restores two sub-trees.

    The original controller writes these very bytes (as UTF-8); fields that it does not know are kept besides.
    """
    template, network = _parts(spec, _AS_WRITTEN)
    template[PATCH_MARKER] = network[PATCH_MARKER] = "replace"
    return serialised({"spec": {"leaderWorkerTemplate": template, "networkConfig": network}})


def equality_tree(spec: Object) -> Fields:
    """The two sub-trees with the defaults of the API server, without what no running pod depends on."""
    template, network = _parts(spec, _AS_STORED)
    return {"leaderWorkerTemplate": template, "networkConfig": network}


def equality_form(spec: Object) -> str:
    """Equal texts if and only if the API server would store equal templates for both specs."""
    return serialised(equality_tree(spec))


def serialised(value: Any, sort_keys: bool = True) -> str:
    """JSON as Go's encoding/json writes it: without spaces, safe inside HTML; sorted like a map, or in the
    order that it has, like a struct.
    """
    text = json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def key_of(text: str, probe: int = 0) -> str:
    """The hash of canonical text: FNV-1 with 32 bits, in an alphabet that makes no words.

    probe: 0 for the key that the original computes; any other number gives another key for the same text.
    """
    return next(islice(keys_of(text), probe, None))


def keys_of(text: str) -> Iterator[str]:
    """The key of the text for every probe, one after the other; the text is read once."""
    value = _hashed(text, _FNV_OFFSET)
    for probe in count():
        found = str(_hashed(str(probe or ""), value))
        yield "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in found)


def _hashed(text: str, value: int) -> int:
    for byte in text.encode():
        value = (value * _FNV_PRIME & _FNV_MASK) ^ byte
    return value


def _parts(spec: Object, normaliser: Normaliser) -> tuple[Fields, Fields]:
    network = spec.get("networkConfig")
    if network is None:
        network = {fields.SUBDOMAIN_POLICY.name: fields.SUBDOMAIN_POLICY.stored_default}
    asked = without_marker(spec.get("leaderWorkerTemplate") or {})
    template = {key: value for key, value in asked.items() if key not in NOT_RECORDED}
    return (
        normaliser.write("LeaderWorkerTemplate", template),
        normaliser.write("NetworkConfig", without_marker(network)),
    )


def without_marker(part: Mapping[str, Any]) -> Fields:
    """A recorded sub-tree as it stood in the spec."""
    return {key: value for key, value in part.items() if key != PATCH_MARKER}
