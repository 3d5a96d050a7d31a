"""What do several kinds of workload read of the same objects?

In: tables that come beside those of LeaderWorkerSet. Out: what is kept of an object, and whether a change is
news for anybody: what wakes no pass over a set may be what another kind of workload waits for. Kinds that
passes over sets and groups never read have no other tables than these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from lws.actions import Object
from lws.cluster.cache import tables
from lws.cluster.cache.fields import Table


class SharedKinds:
    """reads: the tables that come beside, any number of them."""

    def __init__(self, reads: Iterable[Table] = ()) -> None:
        self._tables: dict[str, list[Table]] = {}
        for table in reads:
            self._tables.setdefault(table.kind, []).append(table)

    def trim(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """The part of an object that anybody reads."""
        more = self._tables.get(obj["kind"])
        if more is None:
            return tables.trim(obj)
        parts = [each.of(obj).trim(obj) for each in more]
        if tables.table_of(obj) is not None:
            parts.insert(0, tables.trim(obj))
        return reduce(_united, parts)

    def is_same(self, before: Object, after: Object) -> bool:
        """Do two states of an object differ in nothing that wakes anybody?"""
        more = self._tables.get(after["kind"])
        if (more is None or tables.table_of(after) is not None) and not tables.is_same(before, after):
            return False
        return all(each.of(after).is_same(before, after) for each in more or ())


def _united(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Both parts of one object; of a value that is in both, the first."""
    return {
        **two,
        **{
            name: _united(value, two[name])
            if isinstance(value, Mapping) and isinstance(two.get(name), Mapping)
            else value
            for name, value in one.items()
        },
    }
