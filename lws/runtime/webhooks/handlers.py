"""Register handlers of admission reviews with kopf. Handler ids are the paths that webhook configurations
call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NoReturn

import kopf

from lws.kube.field_errors import FieldError, aggregate
from lws.runtime.actions import Object
from lws.runtime.client.resources import Resource
from lws.runtime.store import Store
from lws.runtime.webhooks.mutation import is_mutating

_FORBIDDEN = 403

Handler = Callable[..., Coroutine[None, None, None]]
Siblings = Callable[[str], Iterable[Object]]
"""The known sets of a namespace."""


def register(
    registry: kopf.OperatorRegistry, endpoints: Mapping[str, Resource], handlers: Mapping[str, Handler]
) -> None:
    """Register handlers. endpoints: handler id → reviewed resource."""
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
    """Reject the reviewed object."""
    raise kopf.AdmissionError(message, code=_FORBIDDEN) from error


def siblings_of(store: Store, kind: str) -> Siblings:
    """Siblings of one kind, from the store."""

    def siblings(namespace: str) -> Iterable[Object]:
        return (obj for obj in store.of_kind(kind) if obj["metadata"]["namespace"] == namespace)

    return siblings


def validator(
    warnings_in: Callable[[Object, Object | None], Iterable[str]],
    errors_in: Callable[[Object, Object | None, Iterable[Object]], list[FieldError]],
    siblings: Siblings,
) -> Handler:
    """A handler that admits or rejects a set by its new and old state and its siblings."""

    async def validate_set(*, warnings: list[str], namespace: str | None, **review: Any) -> None:
        new, old = review["new"], review["old"]
        # Deletions are not validated.
        if new is None:
            return
        after, before = dict(new), None if old is None else dict(old)
        warnings.extend(warnings_in(after, before))
        errors = errors_in(after, before, siblings(namespace or ""))
        if errors:
            refuse(aggregate(errors))

    return validate_set
