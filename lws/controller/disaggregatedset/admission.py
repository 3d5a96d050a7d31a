"""Which admission webhooks of DisaggregatedSet are there, and which decision answers which?

In: reviews, by way of kopf. Out: nothing of its own: each handler is a line to `lws.admission`. The ids are
the paths that webhook configurations have always called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from lws.actions import Object
from lws.admission.disaggregatedset.validation import errors_in, warnings_in
from lws.admission.errors import aggregate
from lws.cluster.cache.store import Store
from lws.cluster.client.resources import DISAGGREGATED_SETS, Resource
from lws.config import Settings
from lws.controller.webhooks.handlers import Handler, refuse
from lws.group.gang.provider import GangProvider
from lws.group.gang.registry import PROVIDERS
from lws_api.disaggregatedset.v1 import KIND

VALIDATE_SET = "validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType({VALIDATE_SET: DISAGGREGATED_SETS})
"""Handler id, which is the URL path without its slash → what it reviews."""


Siblings = Callable[[str], Iterable[Object]]
"""The sets of a namespace, as far as they are known."""


def handlers(settings: Settings, store: Store) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`."""
    provider = settings.gang_provider
    gang = PROVIDERS[provider] if provider is not None else None
    return handlers_with(partial(_sets_in, store), gang)


def _sets_in(store: Store, namespace: str) -> Iterable[Object]:
    return (each for each in store.of_kind(KIND) if each["metadata"]["namespace"] == namespace)


def handlers_with(siblings: Siblings, gang: GangProvider | None) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`. gang: who schedules groups as a whole."""
    return {VALIDATE_SET: _set_validator(siblings, gang)}


def _set_validator(siblings: Siblings, gang: GangProvider | None) -> Handler:
    async def validate_set(*, warnings: list[str], namespace: str | None, **review: Any) -> None:
        new, old = review["new"], review["old"]
        # Nothing is new when a set is deleted.
        if new is None:
            return
        after, before = dict(new), None if old is None else dict(old)
        warnings.extend(warnings_in(after, before, gang))
        errors = errors_in(after, before, siblings(namespace or ""))
        if errors:
            refuse(aggregate(errors))

    return validate_set
