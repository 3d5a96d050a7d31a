"""Check the permissions of the manager, by access reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lws.cli.facts.doctor.checks import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import (
    SELF_REVIEWS,
    WHO_AM_I,
    Denied,
    Installation,
    Reader,
    lease_names,
)
from lws.leaderworkerset.group.gang.registry import GANG_VERBS
from lws.runtime.actions import Object
from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.client.resources import (
    DISAGGREGATED_VERBS,
    NAMESPACED_VERBS,
    SUBJECT_ACCESS_REVIEWS,
    VERBS,
    Resource,
)
from lws.runtime.errors import ApiError, Forbidden

CHECK = "permissions"
_AT_ONCE = 8
_CERTIFICATES = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass(frozen=True, slots=True)
class Right:
    """verb on resource (with its subresource after a slash), of one name or (empty) all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        of = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{of}{f' {self.name}' if self.name else ''}"

    @property
    def attributes(self) -> dict[str, str]:
        """As a review asks for it."""
        plural, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": plural,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: value for key, value in attributes.items() if value}


def needed(facts: Installation) -> Iterator[Right]:
    """What the manager asks for with the configuration that it has."""
    tables = [VERBS, *([DISAGGREGATED_VERBS] if facts.has_disaggregated_sets else [])]
    gangs = facts.configuration.gang_scheduling_management
    tables += (
        [GANG_VERBS[gangs.scheduler_provider]] if gangs and gangs.scheduler_provider in GANG_VERBS else []
    )
    internal = facts.configuration.internal_cert_management.enable
    for (group, resource), verbs in (item for table in tables for item in table.items()):
        for verb in sorted(verbs):
            if resource not in _CERTIFICATES:
                yield Right(verb, group, resource)
            # Where the pod webhook sees pods is read with cert-manager, too.
            elif internal or (verb, resource) == ("get", _CERTIFICATES[0]):
                kind = 0 if resource == _CERTIFICATES[0] else 1
                yield Right(verb, group, resource, name=CONFIGURATIONS[kind][1])
    yield from _namespaced(facts, internal)


def _namespaced(facts: Installation, internal: bool) -> Iterator[Right]:
    secret = facts.configuration.internal_cert_management.webhook_secret_name
    names = {"secrets": (secret,) if internal else (), "leases": lease_names(facts.configuration)}
    for (group, resource), verbs in NAMESPACED_VERBS.items():
        for verb in sorted(verbs):
            # A create cannot be granted by name.
            for name in ("",) if verb == "create" and names[resource] else names[resource]:
                yield Right(verb, group, resource, facts.namespace, name)


async def ask(reader: Reader, facts: Installation) -> Mapping[Right, bool] | Denied:
    """Right → whether the manager has it; by its own token, or by that of a person who may ask for others."""
    user = f"system:serviceaccount:{facts.namespace}:{facts.account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{facts.namespace}", "system:authenticated"]
    is_manager = await _who_am_i(reader) == user
    resource = SELF_REVIEWS if is_manager else SUBJECT_ACCESS_REVIEWS
    spec = {} if is_manager else {"user": user, "groups": groups}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def answer(right: Right) -> tuple[Right, bool]:
        async with slots:
            review = await reader.cluster.create(
                _review(resource, {**spec, "resourceAttributes": right.attributes})
            )
        return right, bool((review.get("status") or {}).get("allowed"))

    rights = list(dict.fromkeys(needed(facts)))
    try:
        first = await answer(rights[0])
        return dict([first, *await asyncio.gather(*map(answer, rights[1:]))])
    except Forbidden:
        return Denied(f"create {resource.plural}.{resource.group} in the cluster")


async def _who_am_i(reader: Reader) -> str:
    try:
        answer = await reader.cluster.create(_review(WHO_AM_I, None))
    except ApiError:
        # Older than Kubernetes 1.28; then it is a person.
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _review(resource: Resource, spec: Object | None) -> Object:
    review = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    return review if spec is None else {**review, "spec": spec}


def check(facts: Installation, answers: Mapping[Right, bool] | Denied) -> Iterator[Result]:
    """One finding for each place where something is lacking."""
    where = f"ServiceAccount {facts.namespace}/{facts.account}"
    if isinstance(answers, Denied):
        yield Unchecked(CHECK, f"what {where} may do", answers.permission)
        return
    if isinstance(facts.configuration_read, Denied):
        what = "rights that only gang scheduling or cert-manager asks for"
        yield Unchecked(CHECK, what, facts.configuration_read.permission)
    lacking: dict[str, list[Right]] = {}
    for right, allowed in answers.items():
        if not allowed:
            lacking.setdefault(right.namespace, []).append(right)
    for namespace, rights in lacking.items():
        place = f"in namespace {namespace}" if namespace else "in the cluster"
        yield Finding(
            CHECK,
            where,
            f"may not, {place}: {_listed(rights)}",
            "upgrade the chart, which grants them, and see that nobody has changed its roles and bindings",
        )


def _listed(rights: Iterable[Right]) -> str:
    return ", ".join(sorted(map(str, rights)))
