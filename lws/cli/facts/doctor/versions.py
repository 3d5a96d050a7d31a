"""Do command, manager and API server go together?

In: an installation. Out: findings, and the versions as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lws import __version__
from lws.cli.facts.doctor.finding import Finding, Result
from lws.cli.facts.doctor.installation import Installation

CHECK = "versions"
OLDEST_KUBERNETES = (1, 26)
"""As the chart's `kubeVersion`."""

_FIRST = (2026, 0)
"""Versions of this controller are dates, year first; those of the original are below."""

_MINOR = re.compile(r"v?(\d+)\.(\d+)")


def manager_version(facts: Installation) -> str:
    """What its Deployment says; empty where that is not known."""
    labels = ((facts.deployment or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get("app.kubernetes.io/version") or "")


def check(facts: Installation) -> Iterator[Result]:
    """Versions that are not known are no finding."""
    server, manager = _minor(facts.server), manager_version(facts)
    if server is not None and server < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        what = f"is Kubernetes {facts.server}, older than {oldest}: workers would not start at ordinal 1"
        yield Finding(CHECK, "API server", what, f"upgrade the cluster to Kubernetes {oldest} or newer")
    if not manager or _minor(manager) == _minor(__version__):
        return
    where = f"Deployment {facts.namespace}/{(facts.deployment or {})['metadata']['name']}"
    if (_minor(manager) or _FIRST) < _FIRST:
        what = (
            f"is the original controller, version {manager}: this command may foretell wrongly what it does"
        )
        yield Finding(
            CHECK,
            where,
            what,
            "to move to the controller of this command, follow docs/operations/handover.md",
        )
    else:
        yield Finding(
            CHECK,
            where,
            f"is version {manager}, this command {__version__}: they may decide differently",
            f"install the command of version {manager}, or upgrade the chart",
        )


def _minor(version: str) -> tuple[int, int] | None:
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None
