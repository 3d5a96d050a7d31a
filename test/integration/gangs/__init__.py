"""The versions of Kubernetes that these tests run on: its own scheduler places groups as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from tools.localcluster.versions import chosen_minor, number_of


@dataclass(frozen=True, slots=True)
class Native:
    """What one version of Kubernetes calls its gangs.

    gates: feature gates that switch them on. version: of the PodGroups that it serves then. scheduled: the
    condition that says whether a group fits.
    """

    gates: tuple[str, ...]
    version: str
    scheduled: str


FIRST = "1.36"
"""The first version that can; components of earlier ones end at once when they are given the gates for it."""


def native() -> Native:
    """Those of the version that $K8S names."""
    if number_of(chosen_minor()) <= number_of(FIRST):
        return Native(("GenericWorkload", "GangScheduling"), "v1alpha2", "PodGroupScheduled")
    return Native(("GenericWorkload",), "v1beta1", "PodGroupInitiallyScheduled")
