"""How a set is named on the command line: `NAME` or `TYPE/NAME`, with the types that kubectl takes.

In: one word. Out: the name; a usage error for another type.
"""

from __future__ import annotations

from typing import Any

import click

from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET

_TYPES = frozenset(
    f"{name}{suffix}"
    for name in (LEADER_WORKER_SET.plural, LEADER_WORKER_SET.singular, *LEADER_WORKER_SET.short_names)
    for suffix in (
        "",
        f".{LEADER_WORKER_SET.group}",
        f".{LEADER_WORKER_SET.version}.{LEADER_WORKER_SET.group}",
    )
)


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


def split_set_name(word: str) -> tuple[str, str]:
    """`lws/demo` → `lws/` and `demo`; the first is empty where there is only a name."""
    kind, slash, name = word.partition("/")
    return (f"{kind}/", name) if slash else ("", word)
