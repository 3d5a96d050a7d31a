"""Can the claims that a set asks for be made, and are they what they were?

In: a set with values of the right types, and as it was before. Out: errors, warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid, rendered, required
from lws.kube.metadata import metadata_of
from lws.kube.names import dns1123_label_errors
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import equality_form
from lws.leaderworkerset.templates.claims import DELETE, RETAIN


def storage_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Claims without which no pod would start, and policies that StatefulSets do not know."""
    for field in map(fields.CLAIM_RETENTION.field, ("whenDeleted", "whenScaled")):
        if field.of(raw) not in (None, "", RETAIN, DELETE):
            yield invalid(field, field.of(raw), f"must be {RETAIN} or {DELETE}")
    for place, claim in enumerate(_claims(raw)):
        path, name = f"{fields.CLAIMS}[{place}]", metadata_of(claim).get("name")
        yield from _name_errors(f"{path}.metadata.name", name)
        if not fields.value_at(claim, ("spec", "accessModes")):
            yield required(f"{path}.spec.accessModes", "say how the claim is mounted, ReadWriteOnce say")
        if not fields.value_at(claim, ("spec", "resources", "requests", "storage")):
            yield required(f"{path}.spec.resources.requests.storage", "say how large the claim is")


def storage_warnings(raw: Mapping[str, Any]) -> Iterator[str]:
    """Names that are there twice: StatefulSets take the last claim of a name."""
    names = [metadata_of(claim).get("name") for claim in _claims(raw)]
    last = {str(name): place for place, name in enumerate(names)}
    for place, name in enumerate(names):
        if place != last[str(name)]:
            path = f"{fields.CLAIMS}[{place}].metadata.name"
            yield f"{path}: {rendered(name)} is the name of a later claim template, which counts: remove one"


def claim_change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Claim templates mean what they did: a StatefulSet can never change its own."""
    after, before = _claims(new), _claims(old)
    if after == before or _form(after) == _form(before):
        return []
    names = ", ".join(str(metadata_of(claim).get("name")) for claim in after)
    why = (
        "field is immutable: StatefulSets cannot change their claim templates; create a set of another name "
        "with these, or delete this one, whose claims stay unless whenDeleted is Delete, and create it anew"
    )
    return [invalid(fields.CLAIMS, names, why)]


def _claims(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    claims = fields.CLAIMS.of(raw)
    return [each for each in claims if isinstance(each, Mapping)] if isinstance(claims, list) else []


def _form(claims: list[Mapping[str, Any]]) -> str:
    return equality_form({"leaderWorkerTemplate": {"volumeClaimTemplates": claims}})


def _name_errors(path: str, name: Any) -> list[FieldError]:
    if not isinstance(name, str) or not name:
        return [required(path, "volumeMounts of containers and the names of claims need it")]
    return [invalid(path, name, why) for why in dns1123_label_errors(name)]
