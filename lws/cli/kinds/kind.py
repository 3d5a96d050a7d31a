"""The interface by which a kind of set supports every command. Commands know no kind by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lws.cli.blocks import Block, Table, Text
from lws.cli.session import Session
from lws.runtime.actions import Object
from lws_api.meta import ResourceKind


class SetState(ABC):
    """How one set stands."""

    @property
    @abstractmethod
    def obj(self) -> Object:
        """The set."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Everything is as it asks."""

    @abstractmethod
    def blocks(self, most: int | None, wide: bool) -> Iterable[Block]:
        """What is shown. most: rows that there is room for, None for all."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """The same as data."""

    @abstractmethod
    def progress(self) -> Text:
        """One line for those who follow along without a terminal."""


class History(ABC):
    """The history of one set. Revisions are those of its kind."""

    @property
    @abstractmethod
    def obj(self) -> Object:
        """The set."""

    @property
    @abstractmethod
    def revisions(self) -> Sequence[Any]:
        """The oldest first."""

    @property
    @abstractmethod
    def wanted(self) -> Any | None:
        """What the set asks for; None as long as that is not recorded."""

    @property
    @abstractmethod
    def complaints(self) -> Sequence[str]:
        """What is wrong with it, a sentence each."""

    @abstractmethod
    def numbered(self, number: int) -> Any:
        """The revision of this number; a Refusal if there is none, more than one, or if it cannot be used."""

    @abstractmethod
    def before(self, revision: Any | None) -> Any:
        """The newest usable one that is older than this one and unlike it; of None the newest of all."""

    @abstractmethod
    def table(self, now: datetime, wide: bool) -> Table:
        """All revisions."""

    @abstractmethod
    def one(self, revision: Any, now: datetime) -> Iterable[Block]:
        """Everything about one revision."""

    @abstractmethod
    def data(self, revisions: Sequence[Any], *, whole: bool) -> dict[str, Any]:
        """These revisions as data. whole: with what they hold."""

    @abstractmethod
    def differences(self, old: Any, new: Any) -> Sequence[str]:
        """A line for each difference that a pod depends on."""

    @abstractmethod
    def compared(self, revision: Any) -> Any:
        """What of a revision is compared, as data."""

    @abstractmethod
    def is_wanted(self, revision: Any) -> bool:
        """The set asks for what the revision holds already."""

    @abstractmethod
    def check(self, target: Any) -> None:
        """Raises Refusal where the set cannot go back to it."""

    @abstractmethod
    def operations(self, read: Object, target: Any) -> list[dict[str, Any]]:
        """The JSON patch (RFC 6902) that leads back. read: the set as it is now."""

    @abstractmethod
    def consequences(self, after: Object, target: Any) -> Iterable[Text]:
        """What follows from having gone back."""


@dataclass(frozen=True)
class Planned:
    """What becomes of one set.

    obj: the set as it would be stored. action: `created`, `configured` or `unchanged`, as kubectl says it.
    blocks: what is shown below the headline. data: the same as data.
    """

    obj: Object
    action: str
    blocks: tuple[Block, ...]
    data: dict[str, Any]


class SetKind(ABC):
    """One kind of sets. resource: how it presents itself."""

    resource: ResourceKind

    @abstractmethod
    async def find(self, session: Session, name: str) -> Object:
        """The set of this name; a Refusal if there is none, or if it cannot be read."""

    @abstractmethod
    async def standing(self, session: Session, obj: Object) -> SetState:
        """How a set stands, read from the API server at one go."""

    @abstractmethod
    def table(self, standings: Sequence[Any], with_namespace: bool, wide: bool) -> Table:
        """A row for each set."""

    @abstractmethod
    async def history(self, session: Session, name: str) -> History:
        """The history of the set of this name."""

    @abstractmethod
    def is_paused(self, obj: Object) -> bool:
        """Its rollouts stand still."""

    @abstractmethod
    def restart_patch(self, obj: Object, now: datetime) -> dict[str, Any]:
        """The merge patch that starts a rollout of every group. Raises Refusal where it would start none."""

    @abstractmethod
    def as_stored(self, manifest: Object) -> dict[str, Any]:
        """What would be stored of a manifest, as far as that can be told without asking a cluster."""

    @abstractmethod
    def created(self, obj: Object, now: datetime, steps: bool) -> Planned:
        """What a set that does not exist yet becomes. steps: with those of a later update."""

    @abstractmethod
    async def changed(self, session: Session, stored: Object, after: Object, steps: bool) -> Planned:
        """What it does to a set to become `after`."""

    @abstractmethod
    def key_and_text(self, obj: Object) -> tuple[str, str]:
        """The key that a set without a history gets, and the text that this is a hash of."""

    @abstractmethod
    async def key(self, session: Session, obj: Object) -> str:
        """The key of the revision that a stored set asks for."""
