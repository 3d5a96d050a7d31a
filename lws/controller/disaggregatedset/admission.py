"""Which admission webhooks of DisaggregatedSet are there, and which decision answers which?

In: reviews, by way of kopf. Out: nothing of its own: each handler is a line to `lws.admission`. The ids are
the paths that webhook configurations have always called.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from lws.admission.disaggregatedset.validation import errors_in, warnings_in
from lws.cluster.cache.store import Store
from lws.cluster.client.resources import DISAGGREGATED_SETS, Resource
from lws.config import Settings
from lws.controller.webhooks.handlers import Handler, Siblings, siblings_of, validator
from lws.group.gang.provider import GangProvider
from lws.group.gang.registry import PROVIDERS
from lws_api.disaggregatedset.v1 import KIND

VALIDATE_SET = "validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType({VALIDATE_SET: DISAGGREGATED_SETS})
"""Handler id, which is the URL path without its slash → what it reviews."""


def handlers(settings: Settings, store: Store) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`."""
    provider = settings.gang_provider
    gang = PROVIDERS[provider] if provider is not None else None
    return handlers_with(siblings_of(store, KIND), gang)


def handlers_with(siblings: Siblings, gang: GangProvider | None) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`. gang: who schedules groups as a whole."""
    return {VALIDATE_SET: validator(partial(warnings_in, gang=gang), errors_in, siblings)}
