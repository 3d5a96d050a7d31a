"""Read from a LeaderWorkerSet the role and the placement policy that it was created from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lws.kube.metadata import RESTARTED_AT_ANNOTATION, without
from lws.kube.pods import PREFERRED, REQUIRED
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
    PlacementStrength,
    PlacementType,
)

ADDED_LABELS = frozenset({NAME_LABEL, ROLE_LABEL, SLICE_LABEL, REVISION_LABEL, APP_LABEL})
"""Labels that the set adds to a LeaderWorkerSet and its pods, in place of labels of users."""
_OF_TERMS = frozenset({NAME_LABEL, SLICE_LABEL})
_TEMPLATES = ("leaderTemplate", "workerTemplate")
_KINDS = ("podAffinity", "podAntiAffinity")


def stripped(spec: Object) -> dict[str, Any]:
    """Return the spec of a child without the labels and affinity terms that the set adds to pod templates."""
    template = dict(spec["leaderWorkerTemplate"])
    for field in _TEMPLATES:
        if template.get(field) is not None:
            template[field] = _stripped_template(template[field])
    return {**spec, "leaderWorkerTemplate": template}


def without_restarts(spec: Object) -> dict[str, Any]:
    """Return the spec of a role or child without the annotation by which users restart its pods."""
    template = dict(spec["leaderWorkerTemplate"])
    for field in _TEMPLATES:
        metadata = (template.get(field) or {}).get("metadata") or {}
        if RESTARTED_AT_ANNOTATION in (metadata.get("annotations") or {}):
            annotations = without(metadata["annotations"], {RESTARTED_AT_ANNOTATION})
            template[field] = {**template[field], "metadata": {**metadata, "annotations": annotations}}
    return {**spec, "leaderWorkerTemplate": template}


def placement_shown(spec: Object) -> dict[str, Any] | None:
    """Return the placement policy with which a child was created; None if it shows no terms of one."""
    template = spec["leaderWorkerTemplate"].get("workerTemplate") or {}
    affinity = (template.get("spec") or {}).get("affinity") or {}
    anti = list(_own_terms(affinity.get("podAntiAffinity") or {}))
    own = [*_own_terms(affinity.get("podAffinity") or {}), *anti]
    if not own:
        return None
    is_exclusive = any(
        (expression.get("key"), expression.get("operator")) == (NAME_LABEL, "NotIn")
        for _, term in anti
        for expression in _expressions(term)
    )
    kind = PlacementType.EXCLUSIVE_TOPOLOGY if is_exclusive else PlacementType.EXCLUSIVE_SLICE
    policy = {"type": kind.value, "topology": own[0][1].get("topologyKey", "")}
    return {**policy, "strength": PlacementStrength.PREFERRED.value} if own[0][0] == PREFERRED else policy


def _stripped_template(template: Object) -> dict[str, Any]:
    metadata, pod = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    if metadata.get("labels"):
        metadata["labels"] = without(metadata["labels"], ADDED_LABELS)
    affinity = dict(pod.get("affinity") or {})
    for kind in _KINDS:
        affinity[kind] = _stripped_terms(affinity.get(kind) or {})
    # Drop empty fields, which the set creates when it adds terms.
    affinity = {field: value for field, value in affinity.items() if value}
    pod = {**pod, "affinity": affinity} if affinity else without(pod, {"affinity"})
    return {**template, **({"metadata": metadata} if metadata else {}), "spec": pod}


def _stripped_terms(kind: Object) -> dict[str, Any]:
    stripped = dict(kind)
    for field in (REQUIRED, PREFERRED):
        if field in kind:
            stripped[field] = [entry for entry in kind[field] or () if not _is_own(_term(field, entry))]
    return {field: value for field, value in stripped.items() if value}


def _own_terms(kind: Object) -> Iterator[tuple[str, Object]]:
    for field in (REQUIRED, PREFERRED):
        terms = (_term(field, entry) for entry in kind.get(field) or ())
        yield from ((field, term) for term in terms if _is_own(term))


def _term(field: str, entry: Object) -> Object:
    term: Object = (entry.get("podAffinityTerm") or {}) if field == PREFERRED else entry
    return term


def _is_own(term: Object) -> bool:
    """Return whether the set created the term, which then selects only labels of sets and slices."""
    keys = {expression.get("key") for expression in _expressions(term)}
    return bool(keys) and keys <= _OF_TERMS and not (term.get("labelSelector") or {}).get("matchLabels")


def _expressions(term: Object) -> Iterable[Object]:
    expressions: Iterable[Object] = (term.get("labelSelector") or {}).get("matchExpressions") or ()
    return expressions
