"""Admission webhooks of LeaderWorkerSet and their handlers. Decisions are in `lws.leaderworkerset.admission`;
the ids are the paths that webhook configurations have always called.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from lws.config import Settings
from lws.kube.field_errors import Refused
from lws.kube.metadata import copied
from lws.leaderworkerset.admission import defaulting, pod
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.group.gang.provider import GangProvider
from lws.leaderworkerset.group.gang.registry import PROVIDERS
from lws.runtime.actions import Object
from lws.runtime.client.resources import LEADERWORKERSETS, PODS, Resource
from lws.runtime.store import Store
from lws.runtime.webhooks.handlers import Handler, Siblings, refuse, siblings_of, validator
from lws.runtime.webhooks.mutation import change_object
from lws_api.leaderworkerset.v1 import KIND

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
"""Handler id (the URL path without its slash) → reviewed resource."""


def handlers(settings: Settings, store: Store) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`."""
    provider = settings.gang_provider
    gang = PROVIDERS[provider] if provider is not None else None
    return handlers_with(siblings_of(store, KIND), gang)


def handlers_with(siblings: Siblings, gang: GangProvider | None) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`. gang: the gang scheduler, if configured."""
    return {
        MUTATE_SET: _default_set,
        VALIDATE_SET: validator(
            partial(leaderworkerset.warnings_in, gang=gang), leaderworkerset.errors_in, siblings
        ),
        MUTATE_POD: _pod_admitter(gang),
        VALIDATE_POD: _allow_pod,
    }


async def _default_set(**_: Any) -> None:
    change_object(_defaulted)


def _defaulted(raw: Object) -> Object:
    lws = copied(raw)
    defaulting.default(lws)
    return lws


def _pod_admitter(gang: GangProvider | None) -> Handler:
    async def admit_pod(*, namespace: str | None, **_: Any) -> None:
        # Rules are deterministic, so randomness comes from here.
        marks = partial(gang.marks, unique=secrets.token_hex(4)) if gang is not None else None

        def admitted(raw: Object) -> Object:
            try:
                return pod.admitted(raw, namespace or "", marks)
            except Refused as refused:
                refuse(str(refused), refused)

        change_object(admitted)

    return admit_pod


async def _allow_pod(**_: Any) -> None:
    """Webhook configurations of earlier releases send every pod update here; all are admitted."""
