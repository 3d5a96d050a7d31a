"""Is there one manager, does it run, and can the API server reach it?

In: an installation. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation
from lws.cli.facts.doctor.reading import Denied

CHECK = "manager"


def check(facts: Installation) -> Iterator[Result]:
    """Its Deployment, and the Service that leads to it."""
    if isinstance(facts.managers, Denied):
        yield Unchecked(CHECK, "the Deployment of the manager", facts.managers.permission)
    else:
        yield from _deployments(facts)
    name = facts.configuration.internal_cert_management.webhook_service_name
    where = f"Service {facts.namespace}/{name}"
    if isinstance(facts.service, Denied):
        yield Unchecked(CHECK, where, facts.service.permission)
    elif facts.service is None:
        what = "is missing: the API server cannot call the webhooks, and refuses sets"
        yield Finding(CHECK, where, what, "install the chart, or upgrade it with equal values")
    elif isinstance(facts.slices, Denied):
        yield Unchecked(CHECK, f"endpoints of {where}", facts.slices.permission)
    elif not _is_answered(facts):
        what = "has no ready endpoint: the API server cannot call the webhooks, and refuses sets"
        yield Finding(
            CHECK, where, what, f"see why no pod is ready: kubectl -n {facts.namespace} describe pods"
        )


def _deployments(facts: Installation) -> Iterator[Finding]:
    managers = [] if isinstance(facts.managers, Denied) else list(facts.managers)
    names = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in managers]
    deployment = facts.deployment
    if deployment is None:
        yield Finding(
            CHECK,
            f"namespace {facts.namespace}",
            "has no Deployment of the manager: nothing acts on sets",
            "install the chart, or name the manager's namespace with -n",
        )
    elif not (deployment.get("status") or {}).get("availableReplicas"):
        where = f"Deployment {facts.namespace}/{deployment['metadata']['name']}"
        do = f"see why no pod is ready: kubectl -n {facts.namespace} describe pods"
        yield Finding(CHECK, where, "has no available pod: nothing acts on sets", do)
    if len(names) > 1:
        yield Finding(
            CHECK,
            f"Deployments {', '.join(sorted(names))}",
            "are managers of the same sets, each with a Lease of its own if their namespaces differ",
            "remove all but one: `helm uninstall` its release, or scale its Deployment to 0",
        )


def _is_answered(facts: Installation) -> bool:
    slices = () if isinstance(facts.slices, Denied) else facts.slices
    endpoints = [endpoint for each in slices for endpoint in each.get("endpoints") or ()]
    # Absent means unknown, which callers are to take for ready.
    return any((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
