"""How handlers of admission reviews are put on kopf's registry, and how they refuse.

In: handlers by id; the ids are the paths that webhook configurations call. Out: nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import NoReturn

import kopf

from lws.cluster.client.resources import Resource
from lws.controller.webhooks.mutation import is_mutating

_FORBIDDEN = 403

Handler = Callable[..., Coroutine[None, None, None]]


def register(
    registry: kopf.OperatorRegistry, endpoints: Mapping[str, Resource], handlers: Mapping[str, Handler]
) -> None:
    """Put handlers on a registry. endpoints: handler id → what it reviews."""
    for webhook, handler in handlers.items():
        resource = endpoints[webhook]
        decorate = (kopf.on.mutate if is_mutating(webhook) else kopf.on.validate)(
            group=resource.group,
            version=resource.version,
            plural=resource.plural,
            id=webhook,
            registry=registry,
        )
        decorate(handler)


def refuse(message: str, error: Exception | None = None) -> NoReturn:
    """What is reviewed is not admitted."""
    raise kopf.AdmissionError(message, code=_FORBIDDEN) from error
