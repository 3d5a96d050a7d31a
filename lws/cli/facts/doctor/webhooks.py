"""Do the API server's webhook configurations lead to this manager, and only to it?

In: an installation. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.actions import Object
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation, hooks
from lws.cli.facts.doctor.reading import Denied, ReadMany
from lws.cluster.certificates.internal import CONFIGURATIONS

CHECK = "webhooks"


def check(facts: Installation) -> Iterator[Result]:
    """Both kinds of configurations, each of them for itself."""
    for (kind, name), stored in zip(CONFIGURATIONS, (facts.mutating, facts.validating), strict=True):
        if isinstance(stored, Denied):
            yield Unchecked(CHECK, f"{kind} {name}", stored.permission)
        else:
            yield from _of_kind(facts, kind, name, stored)


def _of_kind(facts: Installation, kind: str, name: str, stored: ReadMany) -> Iterator[Finding]:
    found = list(hooks(stored))
    if not any(configuration["metadata"]["name"] == name for configuration, _ in found):
        what = "is missing: sets are neither defaulted nor checked, and pods not told who they are"
        yield Finding(CHECK, f"{kind} {name}", what, "install the chart, or upgrade it with equal values")
    for configuration, hook in found:
        if configuration["metadata"]["name"] == name:
            yield from _of_hook(facts, f"{kind} {name}, webhook {hook['name']}", hook)
    for other in sorted({each["metadata"]["name"] for each, _ in found} - {name}):
        yield Finding(
            CHECK,
            f"{kind} {other}",
            "asks a second controller about the same sets",
            f"remove the installation that it belongs to, or this configuration if nothing serves it: "
            f"`kubectl delete {kind.lower()} {other}`",
        )


def _of_hook(facts: Installation, where: str, hook: Mapping[str, Any]) -> Iterator[Finding]:
    service: Object = hook["clientConfig"].get("service") or {}
    own = (facts.namespace, facts.configuration.internal_cert_management.webhook_service_name)
    if (service.get("namespace"), service.get("name")) != own:
        asked = f"{service.get('namespace')}/{service.get('name')}" if service else "a URL"
        yield Finding(
            CHECK,
            where,
            f"asks {asked}, while the manager is behind Service {'/'.join(own)}",
            "upgrade the chart in the namespace where the manager runs, or name that namespace with -n",
        )
    if hook.get("failurePolicy", "Fail") != "Fail":
        yield Finding(
            CHECK,
            where,
            "is passed over when the manager does not answer (failurePolicy Ignore): what it would refuse is "
            "stored, and pods start without what tells them who they are",
            "set webhooks.failurePolicy=Fail in the chart's values",
        )
