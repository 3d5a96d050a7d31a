"""Register handlers of admission reviews with kopf.

The id of a handler is the path that webhook configurations call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import kopf

from lws.kube.field_errors import FieldError, aggregate
from lws.kube.patches import Operation, json_patch
from lws.runtime.actions import Object
from lws.runtime.client.resources import Resource
from lws.runtime.store import Store

_FORBIDDEN = 403

Handler = Callable[..., Coroutine[None, None, None]]
Siblings = Callable[[str], Iterable[Object]]
"""A function that returns the sets in a namespace, from the store."""


def register(
    registry: kopf.OperatorRegistry, endpoints: Mapping[str, Resource], handlers: Mapping[str, Handler]
) -> None:
    """Register handlers with kopf. endpoints: the reviewed resource by handler id."""
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
    """Reject the reviewed object with a message: raises kopf.AdmissionError."""
    raise kopf.AdmissionError(message, code=_FORBIDDEN) from error


def siblings_of(store: Store, kind: str) -> Siblings:
    """Return a function that finds the sets of one kind in a namespace, in the store."""

    def siblings(namespace: str) -> Iterable[Object]:
        return (obj for obj in store.of_kind(kind) if obj["metadata"]["namespace"] == namespace)

    return siblings


def validator(
    warnings_in: Callable[[Object, Object | None], Iterable[str]],
    errors_in: Callable[[Object, Object | None, Iterable[Object]], list[FieldError]],
    siblings: Siblings,
) -> Handler:
    """Return a handler that admits or rejects a set by its new state, its old state and its siblings."""

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


# --- Collect the changes of mutating webhooks while kopf runs their handlers, and apply them afterwards as a
# JSON Patch. kopf would copy the object and compare all of it, which takes three quarters of the time of a
# review, and a rollout needs one review per pod. This code does not compare parts that both objects share.


Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that returns the changed object, leaving its argument alone, or raises to reject it."""

_MUTATING = "mutate-"
# The only way from a handler back to its review: kopf itself would apply changes in its `patch.fns`.
_COLLECTED: ContextVar[list[Change]] = ContextVar("changes of the current review")


def is_mutating(webhook: str) -> bool:
    """Return whether a webhook is mutating, so that its handlers may add changes."""
    return webhook.startswith(_MUTATING)


def change_object(change: Change) -> None:
    """Add a change to apply to the reviewed object. Handlers call this function."""
    _COLLECTED.get().append(change)


@contextmanager
def collected() -> Iterator[list[Change]]:
    """Collect the changes that handlers add within this context."""
    changes: list[Change] = []
    token = _COLLECTED.set(changes)
    try:
        yield changes
    finally:
        _COLLECTED.reset(token)


def patch_of(obj: Mapping[str, Any], changes: Iterable[Change]) -> list[Operation]:
    """Return the JSON Patch of all changes, applied in order."""
    changed = obj
    for change in changes:
        changed = change(changed)
    return list(json_patch(obj, changed))
