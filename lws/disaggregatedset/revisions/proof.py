"""What proves that the data of a ControllerRevision are those that were recorded under its name?

In: its name, data and annotations. Out: whether they belong together, and what else was noted. The API server
refuses edits of data, but anybody may delete a revision and make another one of its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from lws.actions import Object
from lws.disaggregatedset.key import key_of
from lws.kube.metadata import annotations_of, is_mapping
from lws.leaderworkerset.revisions.encoding import serialised

PROOF_ANNOTATION = "disaggregatedset.x-k8s.io/revision-record"
"""A sum over name and data. Keys prove data too, but not those of what ran before there was a history."""

_SUM_LENGTH = 16

_PROBES_TRIED = 64
"""Keys that the roles may have had to give up to collisions."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is noted beside the sum. generation: that of the set for which a history was made of what ran."""

    generation: int | None = None


def proving(name: str, text: str, proof: Proof) -> dict[str, str]:
    """The annotation that a new revision gets. text: its data."""
    noted = {"sum": _sum(name, text, proof)}
    if proof.generation is not None:
        noted |= {"generation": str(proof.generation)}
    return {PROOF_ANNOTATION: serialised(noted)}


def proof_of(revision: Object) -> Proof | None:
    """The proof of a revision that has its data; None where it has none that holds."""
    try:
        noted = json.loads(annotations_of(revision).get(PROOF_ANNOTATION, ""))
        generation = noted.get("generation") if is_mapping(noted) else None
        proof = Proof(None if generation is None else int(generation))
        text = serialised(revision.get("data"))
        is_whole = is_mapping(noted) and noted.get("sum") == _sum(revision["metadata"]["name"], text, proof)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return proof if is_whole else None


def is_proven(revision: Object, key: str, roles: Mapping[str, Object]) -> bool:
    """Whether the sum or the key says that these roles were recorded under the name of the revision."""
    if proof_of(revision) is not None:
        return True
    return any(key_of(roles, probe) == key for probe in range(_PROBES_TRIED))


def _sum(name: str, text: str, proof: Proof) -> str:
    noted = f"{name}\n{proof.generation}\n{text}"
    return sha256(noted.encode()).hexdigest()[:_SUM_LENGTH]
