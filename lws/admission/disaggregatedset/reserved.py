"""What becomes of labels and annotations of the controller that a role has already?

In: a set with values of the right types. Out: errors for those by which objects are found, warnings for the
label `app`, which the original overwrites too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.disaggregatedset.facts import RoleFacts, SetFacts
from lws.admission.errors import FieldError, forbidden, rendered
from lws.kube.metadata import annotations_of, is_mapping, labels_of
from lws.leaderworkerset import fields
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    INITIAL_REPLICAS_ANNOTATION,
    NAME_LABEL,
    OTHERS_INITIAL_REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
)

_SET_BY_THE_CONTROLLER = (NAME_LABEL, ROLE_LABEL, SLICE_LABEL, REVISION_LABEL)
_REMEMBERED = (INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION)


def reserved_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Labels by which the children of sets are told apart, and the memory of rollouts."""
    for role in facts.roles:
        same = {NAME_LABEL: facts.name, ROLE_LABEL: role.name}
        for path, place in _places(role):
            labels = labels_of(place)
            for key in _SET_BY_THE_CONTROLLER:
                if key in labels and labels[key] != same.get(key):
                    why = "is set by the controller, which finds objects by it: remove it"
                    yield forbidden(f"{path}.labels[{key}]", labels[key], why)
        annotations = annotations_of(role.raw)
        for key in _REMEMBERED:
            if key in annotations:
                why = "is where the controller remembers how a rollout began: remove it"
                yield forbidden(f"{role.path}.metadata.annotations[{key}]", annotations[key], why)


def reserved_warnings(facts: SetFacts) -> Iterator[str]:
    """Labels that are overwritten."""
    for role in facts.roles:
        for path, place in _places(role):
            if (value := labels_of(place).get(APP_LABEL)) is not None:
                yield (
                    f"{path}.labels[{APP_LABEL}]: {rendered(value)} is overwritten with "
                    f"<set>-<slice>-<role>: select pods by {NAME_LABEL} and {ROLE_LABEL}"
                )


def _places(role: RoleFacts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path of the metadata, and what has them: the role and its templates."""
    yield f"{role.path}.metadata", role.raw
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = role.at(*field.path)
        if is_mapping(template):
            yield f"{role.path}.{field}.metadata", template
