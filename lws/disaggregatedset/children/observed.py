"""Protocols for what the planners of children read of a snapshot: the set, its children, and name holders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from lws.runtime.actions import Object
from lws.runtime.children import Owner


class ObservedChild(Protocol):
    """One LeaderWorkerSet of a set: a role of a slice at a revision.

    wanted: groups that it is to have. existing: groups that are there. ready: groups that serve.
    """

    @property
    def obj(self) -> Object: ...
    @property
    def role(self) -> str: ...
    @property
    def slice_index(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def is_legacy(self) -> bool: ...
    @property
    def wanted(self) -> int: ...
    @property
    def existing(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def is_leaving(self) -> bool: ...


class ObservedSet(Protocol):
    """What a pass knows of a set. services, scalers: those that it controls. strangers: what else has a name
    that the set gives, by kind and name. owners_alive: UIDs of their controllers that live.
    """

    @property
    def obj(self) -> Object: ...
    @property
    def now(self) -> datetime: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def children(self) -> Sequence[ObservedChild]: ...
    @property
    def services(self) -> Sequence[Object]: ...
    @property
    def scalers(self) -> Sequence[Object]: ...
    @property
    def strangers(self) -> Mapping[tuple[str, str], Object]: ...
    @property
    def owners_alive(self) -> Collection[str]: ...
