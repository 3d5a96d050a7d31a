"""Prove with which data, key and placement a ControllerRevision was recorded.

In: its name, data and annotations. Out: whether the name belongs to the data; key and placement as recorded;
the patch that restores them. The API server rejects edits of data, but not of metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lws.kube.metadata import annotations_of, is_mapping, labels_of
from lws.leaderworkerset.revisions.encoding import key_of, keys_of, serialised
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, REVISION_LABEL

SEAL_ANNOTATION = "leaderworkerset.sigs.k8s.io/revision-record"
"""Key and placement of a revision, with a sum over both and its name. Releases before had none."""

_NAME = re.compile(r"(?s).+-([a-z0-9]+)-[0-9]+")

_PROBES_TRIED = 1024
"""Keys that one text may have had to give up: to collisions, and to itself with another placement."""


@dataclass(frozen=True, slots=True)
class Seal:
    """As recorded. key: the label of pods. topology: annotations that say where groups run."""

    key: str
    topology: Mapping[str, str]


def fingerprint_of(name: str) -> str:
    """The hash in the name of a revision; empty where it has another form."""
    match = _NAME.fullmatch(name)
    return match[1] if match is not None else ""


def is_of_data(name: str, data: Any) -> bool:
    """Whether the name of a revision holds the hash of these data."""
    # The data may be of any size: they are read once, however many keys are tried.
    return fingerprint_of(name) in islice(keys_of(serialised(data)), _PROBES_TRIED)


def sealing(name: str, key: str, topology: Mapping[str, str]) -> dict[str, str]:
    """The annotation that a new revision gets."""
    told = {"key": key, "sum": _sum(name, key, topology), "topology": dict(topology)}
    return {SEAL_ANNOTATION: serialised(told)}


def seal_of(revision: Object) -> Seal | None:
    """The seal of a revision; None where it has none that holds."""
    try:
        told = json.loads(annotations_of(revision).get(SEAL_ANNOTATION, ""))
    except (TypeError, ValueError, RecursionError):
        return None
    if not is_mapping(told):
        return None
    key, topology = told.get("key"), told.get("topology")
    if not isinstance(key, str) or not key or not is_mapping(topology):
        return None
    is_whole = told.get("sum") == _sum(revision["metadata"]["name"], key, topology)
    return Seal(key, topology) if is_whole else None


def edits_of(revision: Object, seal: Seal) -> dict[str, Any]:
    """What of the metadata is not as it was recorded, as a merge patch; empty where all is."""
    has_key = labels_of(revision).get(REVISION_LABEL) == seal.key
    labels = {} if has_key else {REVISION_LABEL: seal.key}
    told = annotations_of(revision)
    parts = {"labels": labels, "annotations": placement_patch(told, seal.topology)}
    return {field: part for field, part in parts.items() if part}


def placement_patch(stored: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str | None]:
    """The patch of annotations that leads from what is stored to what was recorded."""
    wanted = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **recorded}
    edited = (key for key in PLACEMENT_ANNOTATIONS if (stored.get(key) or "") != wanted.get(key, ""))
    return {key: wanted.get(key) for key in edited}


def _sum(name: str, key: str, topology: Mapping[str, str]) -> str:
    return key_of(serialised([name, key, dict(topology)]))
