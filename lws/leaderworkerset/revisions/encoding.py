"""Encode the part of a spec that a rollout depends on.

There are three encodings: upstream's canonical text, byte for byte; the key, which is the hash of that text;
and a form in which equivalent specs are equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from lws.kube.defaults import DEFAULTS
from lws.kube.names import safe_encoded
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
"""The types that revisions record, with their fields in upstream's order."""

NOT_IN_PODS = ("restartPolicy", "persistentVolumeClaimRetentionPolicy")
"""Recorded fields that no pod depends on: an edit takes effect at once, without a rollout."""

NOT_RECORDED = ("maxGroupRestarts", "restartBackoff")
"""Fields that are neither recorded nor compared, as in upstream: an edit takes effect on every revision."""

LIVE = (*NOT_IN_PODS, *NOT_RECORDED)
"""Fields of a template that take effect at once."""


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
        "SubGroupPolicy": _default(fields.SUB_GROUP_POLICY_TYPE),
    },
)

_ESCAPES = (
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("&", "\\u0026"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)

_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 2166136261, 16777619, 0xFFFFFFFF


def canonical_text(spec: Object) -> str:
    """Return the `data` of this spec's ControllerRevision: a strategic merge patch that restores two
    sub-trees. Upstream writes the same bytes (as UTF-8), but without fields that it does not know.
    """
    template, network = _parts(spec, _AS_WRITTEN)
    template[PATCH_MARKER] = network[PATCH_MARKER] = "replace"
    return serialised({"spec": {"leaderWorkerTemplate": template, "networkConfig": network}})


def equality_tree(spec: Object) -> Fields:
    """Return the recorded sub-trees with the defaults of the API server, without fields that no pod depends
    on.
    """
    template, network = _parts(spec, _AS_STORED)
    return {"leaderWorkerTemplate": template, "networkConfig": network}


def equality_form(spec: Object) -> str:
    """Return a text that is equal for two specs if and only if the API server would store equal templates."""
    return serialised(equality_tree(spec))


def claims_form(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that is equal for two lists of claim templates if a StatefulSet with the one accepts an
    apply with the other.
    """
    return equality_form({"leaderWorkerTemplate": {"volumeClaimTemplates": claims}})


def serialised(value: Any, sort_keys: bool = True) -> str:
    """Return the value as JSON, as Go's encoding/json writes it, without spaces and safe inside HTML.
    sort_keys: whether keys are sorted, as for a Go map, or keep their order, as for a struct.
    """
    text = json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def key_of(text: str, probe: int = 0) -> str:
    """Return the hash of canonical text: FNV-1 with 32 bits, in an alphabet without vowels. probe: 0 for
    upstream's key; any other number gives another key for the same text.
    """
    return key_at(text_hash(text), probe)


def keys_of(text: str) -> Iterator[str]:
    """Return the keys of the text for probes 0, 1, 2 and so on; the text is hashed only once."""
    return map(partial(key_at, text_hash(text)), count())


def text_hash(text: str) -> int:
    """Return the hash of canonical text. 100 kB take 26 ms, so callers keep it."""
    return _hashed(text, _FNV_OFFSET)


def key_at(hashed: int, probe: int) -> str:
    """Return the key of the text with this hash, as in `key_of`."""
    return safe_encoded(str(_hashed(str(probe or ""), hashed)))


def _hashed(text: str, value: int) -> int:
    for byte in text.encode():
        value = (value * _FNV_PRIME & _FNV_MASK) ^ byte
    return value


def _parts(spec: Object, normaliser: Normaliser) -> tuple[Fields, Fields]:
    network = spec.get("networkConfig")
    if network is None:
        network = {fields.SUBDOMAIN_POLICY.name: fields.SUBDOMAIN_POLICY.stored_default}
    template = without_marker(spec.get("leaderWorkerTemplate") or {})
    template = {key: value for key, value in template.items() if key not in NOT_RECORDED}
    return (
        normaliser.write("LeaderWorkerTemplate", template),
        normaliser.write("NetworkConfig", without_marker(network)),
    )


def without_marker(part: Mapping[str, Any]) -> Fields:
    """Return a recorded sub-tree in the form that it has in the spec."""
    return {key: value for key, value in part.items() if key != PATCH_MARKER}
