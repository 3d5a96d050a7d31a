"""How a set is named on the command line: `NAME` or `TYPE/NAME`, with the types that kubectl takes.

In: one word. Out: the name, and of which type it is; a usage error for any other type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.disaggregatedset.v1 import NAME_LABEL as DISAGGREGATED_NAME_LABEL
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET, NAME_LABEL
from lws_api.meta import ResourceKind


@dataclass(frozen=True, slots=True)
class SetType:
    """A type of sets that commands take. label: on all that is made for one, with its name."""

    resource: ResourceKind
    label: str

    @property
    def words(self) -> frozenset[str]:
        """What may stand before the slash, in small letters."""
        kind = self.resource
        return frozenset(
            f"{name}{suffix}"
            for name in (kind.plural, kind.singular, *kind.short_names)
            for suffix in ("", f".{kind.group}", f".{kind.version}.{kind.group}")
        )


TYPES = (SetType(LEADER_WORKER_SET, NAME_LABEL), SetType(DISAGGREGATED_SET, DISAGGREGATED_NAME_LABEL))
"""A name without a type is of the first one."""

_USE = "use NAME, lws/NAME or disaggregatedset/NAME"


class NamedSet(str):
    """The name of a set, and its type."""

    type: SetType

    def __new__(cls, name: str, type_: SetType = TYPES[0]) -> NamedSet:
        named = super().__new__(cls, name)
        named.type = type_
        return named


class SetName(click.ParamType[NamedSet]):
    """`demo`, `lws/demo`, `leaderworkerset/demo`, `dset/llm` → a `NamedSet`."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NamedSet:
        if isinstance(value, NamedSet):
            return value
        prefix, name = split_set_name(value)
        set_type = type_of(prefix)
        if set_type is None:
            self.fail(f"{value!r} is no LeaderWorkerSet or DisaggregatedSet: {_USE}", param, ctx)
        if not name or "/" in name:
            self.fail(f"{value!r} does not have a single type and name: {_USE}", param, ctx)
        return NamedSet(name, set_type)


def type_of(prefix: str) -> SetType | None:
    """The type that a word before the name says, slash included; None for one that is not known."""
    if not prefix:
        return TYPES[0]
    word = prefix.removesuffix("/").lower()
    return next((set_type for set_type in TYPES if word in set_type.words), None)


def split_set_name(word: str) -> tuple[str, str]:
    """`lws/demo` → `lws/` and `demo`; the first is empty where there is only a name."""
    kind, slash, name = word.partition("/")
    return (f"{kind}/", name) if slash else ("", word)
