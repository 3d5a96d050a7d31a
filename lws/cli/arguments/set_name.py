"""How a set is named on the command line: `NAME` or `TYPE/NAME`, with the types that kubectl takes.

In: one word. Out: the name; a usage error for another type.
"""

from __future__ import annotations

from typing import Any

import click

from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET
from lws_api.meta import ResourceKind


def _types(kind: ResourceKind) -> frozenset[str]:
    return frozenset(
        f"{name}{suffix}"
        for name in (kind.plural, kind.singular, *kind.short_names)
        for suffix in ("", f".{kind.group}", f".{kind.version}.{kind.group}")
    )


_TYPES = _types(LEADER_WORKER_SET)
_DISAGGREGATED = _types(DISAGGREGATED_SET)


class SetName(click.ParamType[str]):
    """`demo`, `lws/demo`, `leaderworkerset/demo` → `demo`."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        prefix, name = split_set_name(value)
        kind = prefix.removesuffix("/")
        if prefix and kind.lower() not in _TYPES:
            self.fail(f"{value!r} is not a LeaderWorkerSet: use NAME or lws/NAME", param, ctx)
        if not name or "/" in name:
            self.fail(f"{value!r} does not have a single type and name: use NAME or lws/NAME", param, ctx)
        return name


def is_disaggregated(prefix: str) -> bool:
    """Whether the word before the name is the type of DisaggregatedSets."""
    return prefix.removesuffix("/").lower() in _DISAGGREGATED


class DisaggregatedName(str):
    """The name of a DisaggregatedSet."""


class AnySetName(SetName):
    """The same, and `disaggregatedset/llm`, `dset/llm` → a `DisaggregatedName`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        prefix, name = split_set_name(value)
        if is_disaggregated(prefix) and name and "/" not in name:
            return DisaggregatedName(name)
        return super().convert(value, param, ctx)


def split_set_name(word: str) -> tuple[str, str]:
    """`lws/demo` → `lws/` and `demo`; the first is empty where there is only a name."""
    kind, slash, name = word.partition("/")
    return (f"{kind}/", name) if slash else ("", word)
