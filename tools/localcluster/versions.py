"""Choose the version of Kubernetes that the local cluster runs, by $K8S."""

from __future__ import annotations

import os
from collections.abc import Mapping

# The go.mod file of each version pins the matching versions of its libraries.
RELEASES: Mapping[str, str] = {
    "1.30": "1.30.14",
    "1.32": "1.32.2",
    "1.34": "1.34.4",
    "1.36": "1.36.3",
    "1.37": "1.37.2",
}
DEFAULT = "1.37"
INTEGRATION, END_TO_END, OTHERS = "integration", "end-to-end", "others"
TESTED: Mapping[str, frozenset[str]] = {
    "1.30": frozenset({INTEGRATION, END_TO_END}),
    "1.32": frozenset({INTEGRATION, END_TO_END}),
    "1.34": frozenset({INTEGRATION, END_TO_END}),
    "1.36": frozenset({INTEGRATION, END_TO_END, OTHERS}),
    "1.37": frozenset({INTEGRATION, END_TO_END}),
}
"""The suites that have passed on each version. test_versions.py compares this with the documents."""
VARIABLE = "K8S"


class UnknownVersionError(RuntimeError):
    """The local cluster cannot run this version; the message lists the possible versions."""


def chosen_minor(environment: Mapping[str, str] = os.environ) -> str:
    """Return the minor version in $K8S ("1.37"), by default DEFAULT. Raises UnknownVersionError."""
    minor = environment.get(VARIABLE) or DEFAULT
    if minor not in RELEASES:
        raise UnknownVersionError(
            f"{VARIABLE}={minor}: the local cluster can be one of {', '.join(RELEASES)}"
        )
    return minor


def number_of(minor: str) -> tuple[int, ...]:
    """Return a minor version such as "1.36" as numbers, which can be compared."""
    return tuple(map(int, minor.split(".")))
