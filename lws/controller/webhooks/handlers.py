"""Which admission webhooks are there, and which decision answers which?

In: reviews, by way of kopf. Out: nothing of its own: each handler is a line to `lws.admission`. The ids are
the paths that webhook configurations have always called.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import kopf

from lws.actions import Object
from lws.admission import defaulting, leaderworkerset
from lws.admission.errors import Refused, aggregate
from lws.admission.pods import pod
from lws.cluster.client.resources import LEADERWORKERSETS, PODS, Resource
from lws.controller.webhooks.mutation import change_object
from lws.group.gang.provider import GangProvider

MUTATE_SET = "mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
VALIDATE_SET = "validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_POD = "mutate--v1-pod"
VALIDATE_POD = "validate--v1-pod"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType(
    {
        MUTATE_SET: LEADERWORKERSETS,
        VALIDATE_SET: LEADERWORKERSETS,
        MUTATE_POD: PODS,
        VALIDATE_POD: PODS,
    }
)
"""Handler id, which is the URL path without its slash → what it reviews."""

_FORBIDDEN = 403

Handler = Callable[..., Coroutine[None, None, None]]


Siblings = Callable[[str], Iterable[Object]]
"""The sets of a namespace, as far as they are known."""


def _nobody(namespace: str) -> Iterable[Object]:
    return ()


def register(
    registry: kopf.OperatorRegistry, siblings: Siblings = _nobody, gang: GangProvider | None = None
) -> None:
    """Put the handlers of all `ENDPOINTS` on a registry. gang: who schedules groups as a whole."""
    kopf.on.mutate(**_options(MUTATE_SET, registry))(_default_set)
    kopf.on.validate(**_options(VALIDATE_SET, registry))(_set_validator(siblings, gang))
    kopf.on.mutate(**_options(MUTATE_POD, registry))(_pod_admitter(gang))
    kopf.on.validate(**_options(VALIDATE_POD, registry))(_allow_pod)


def _options(webhook: str, registry: kopf.OperatorRegistry) -> dict[str, Any]:
    resource = ENDPOINTS[webhook]
    version = resource.api_version.rpartition("/")[2]
    return {
        "group": resource.group,
        "version": version,
        "plural": resource.plural,
        "id": webhook,
        "registry": registry,
    }


async def _default_set(**_: Any) -> None:
    change_object(defaulting.default)


def _set_validator(siblings: Siblings, gang: GangProvider | None) -> Handler:
    async def validate_set(*, warnings: list[str], namespace: str | None, **review: Any) -> None:
        new, old = review["new"], review["old"]
        # Nothing is new when a set is deleted.
        if new is None:
            return
        after, before = dict(new), None if old is None else dict(old)
        warnings.extend(leaderworkerset.warnings_in(after, before, gang))
        errors = leaderworkerset.errors_in(after, before, siblings(namespace or ""))
        if errors:
            raise kopf.AdmissionError(aggregate(errors), code=_FORBIDDEN)

    return validate_set


def _pod_admitter(gang: GangProvider | None) -> Handler:
    async def admit_pod(*, namespace: str | None, **_: Any) -> None:
        # A rule has no randomness of its own.
        marks = partial(gang.marks, unique=secrets.token_hex(4)) if gang is not None else None

        def admit(raw: dict[str, Any]) -> None:
            try:
                pod.admit(raw, namespace or "", marks)
            except Refused as refused:
                raise kopf.AdmissionError(str(refused), code=_FORBIDDEN) from refused

        change_object(admit)

    return admit_pod


async def _allow_pod(**_: Any) -> None:
    """Configurations of earlier releases send every update of a pod here, and every pod is good."""
