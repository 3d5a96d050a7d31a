"""The Kubernetes versions for these tests: their own scheduler places complete groups."""

from __future__ import annotations

from dataclasses import dataclass

from tools.localcluster.versions import chosen_minor, number_of


@dataclass(frozen=True, slots=True)
class Native:
    """The gang API of one Kubernetes version.

    gates: feature gates that enable it. version: of its PodGroups. scheduled: the condition that reports
    whether a group fits.
    """

    gates: tuple[str, ...]
    version: str
    scheduled: str


FIRST = "1.36"
"""The first version with gangs; components of earlier ones exit at once with these feature gates."""


def native() -> Native:
    """Return the gang API of the version in $K8S."""
    if number_of(chosen_minor()) <= number_of(FIRST):
        return Native(("GenericWorkload", "GangScheduling"), "v1alpha2", "PodGroupScheduled")
    return Native(("GenericWorkload",), "v1beta1", "PodGroupInitiallyScheduled")
