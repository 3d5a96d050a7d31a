"""Collect the changes of mutating handlers while kopf runs them, and turn them into a JSON Patch afterwards.

kopf would copy the object and compare all of it, which took three quarters of the time of a review: a rollout
asks for one for each of its pods. Parts that two objects share are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lws.kube.differences.patches import Operation, json_patch

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What an object is to become; it stays as it was itself, and may be refused by an exception."""

_MUTATING = "mutate-"
# Nothing else leads from a handler back to its review: what is added to kopf's `patch.fns`, kopf carries out.
_COLLECTED: ContextVar[list[Change]] = ContextVar("changes of the review that is answered")


def is_mutating(webhook: str) -> bool:
    """By its id: handlers of such webhooks say changes, and need no more of the object than who it is."""
    return webhook.startswith(_MUTATING)


def change_object(change: Change) -> None:
    """Have the reviewed object changed so."""
    _COLLECTED.get().append(change)


@contextmanager
def collected() -> Iterator[list[Change]]:
    """The changes that handlers ask for within this context."""
    changes: list[Change] = []
    token = _COLLECTED.set(changes)
    try:
        yield changes
    finally:
        _COLLECTED.reset(token)


def patch_of(obj: Mapping[str, Any], changes: Iterable[Change]) -> list[Operation]:
    """The patch that does to the object what all changes do, one after the other."""
    changed = obj
    for change in changes:
        changed = change(changed)
    return list(json_patch(obj, changed))


def head_of(obj: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Who an object is."""
    return (
        None if obj is None else {key: obj[key] for key in ("apiVersion", "kind", "metadata") if key in obj}
    )
