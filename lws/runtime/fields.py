"""The fields of one kind that decisions read, and what follows from the list: what is kept of an object,
which changes count, and which passes they wake.

In: rows, one per field (`tables.py` has them). Out: closures made of them once: they run for every event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from lws.runtime.actions import Object


class Wakes(IntEnum):
    """The passes that a change wakes, of those over the sets and groups that the object concerns."""

    NOBODY = 0
    """It is read by passes that something else wakes."""
    SET = 1
    """Those over sets."""
    LATER = 2
    """All; that over a group can wait once its workers exist."""
    ALL = 3


NOBODY, SET, LATER, ALL = Wakes

Excerpt = Callable[[Any, Mapping[str, Any]], Any]
"""What is kept of a field that is there, by its value and the whole object; None for nothing."""
Rule = Callable[[Object, Object], Wakes]
"""Which passes a change of a field wakes, by the object before and after it."""


@dataclass(frozen=True, slots=True)
class StoredField:
    """One field that is read.

    path: where it is, as `section.name`, or `name` at the top of the object. wakes: the passes that a change
    of it wakes. excerpt: how much of it is kept, all by default. default: what is kept where it is absent.
    """

    path: str
    wakes: Wakes | Rule = ALL
    excerpt: Excerpt | None = None
    default: Any = None

    @property
    def section(self) -> str:
        """The object's part that has it; empty for the object itself."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name there."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class StoredFields:
    """All that is read of one kind.

    others: whom changes of fields without a row wake; None where such fields are not kept at all.
    is_undisturbed: true of objects whose changes the rules may judge; any change of another one wakes all.
    variant: the table of some objects of the kind, and which these are.
    """

    kind: str
    fields: tuple[StoredField, ...]
    others: Wakes | None = None
    is_undisturbed: Callable[[Object], bool] | None = None
    variant: tuple[Callable[[Mapping[str, Any]], bool], StoredFields] | None = None

    def of(self, obj: Mapping[str, Any]) -> StoredFields:
        """The table of this very object."""
        return self.variant[1] if self.variant is not None and self.variant[0](obj) else self

    @cached_property
    def trim(self) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """The part of an object that is read."""
        kind, is_whole = self.kind, self.others is not None
        copy_top, has_top = _copier(self._rows(""), is_whole), is_whole or bool(self._rows(""))
        sections = [(section, self._rows(section)) for section in self._sections]
        copiers = [
            (section, _copier(rows, is_whole))
            for section, rows in sections
            if not is_whole or any(row.excerpt is not None for row in rows)
        ]

        def trim(obj: Mapping[str, Any]) -> dict[str, Any]:
            made = copy_top(obj, obj) if has_top else {}
            if not is_whole:
                # Every event brings its own copy of these words.
                made["apiVersion"], made["kind"] = sys.intern(obj["apiVersion"]), kind
            for section, copy_part in copiers:
                made[section] = copy_part(obj.get(section) or {}, obj)
            return made

        return trim

    @cached_property
    def is_same(self) -> Callable[[Object, Object], bool]:
        """Report whether two states of an object differ in nothing that triggers a pass."""
        changed = self._changed
        return lambda before, after: next(changed(before, after), None) is None

    @cached_property
    def wakes(self) -> Rule:
        """The passes that a change of an object wakes."""
        if all(field_.wakes in (NOBODY, ALL) for field_ in self.fields):
            return lambda before, after: ALL
        changed, is_undisturbed = self._changed, self.is_undisturbed

        def wakes(before: Object, after: Object) -> Wakes:
            rules: list[Wakes | Rule] = []
            for rule in changed(before, after):
                if rule is ALL:
                    return ALL
                if rule not in rules:
                    rules.append(rule)
            if is_undisturbed is not None and not (is_undisturbed(before) and is_undisturbed(after)):
                return ALL
            most = NOBODY
            for rule in rules:
                woken = rule if isinstance(rule, Wakes) else rule(before, after)
                most = woken if woken > most else most
            return most

        return wakes

    @cached_property
    def _changed(self) -> Callable[[Object, Object], Iterator[Wakes | Rule]]:
        """The passes that changed fields trigger; fields that trigger none are left out."""
        others = NOBODY if self.others is None else self.others
        # What changes most often is last in an object.
        parts = [(section, self._rules(section)) for section in (*reversed(self._sections), "")]
        parts = [(section, rules) for section, rules in parts if others or any(rules.values())]

        def changed(before: Object, after: Object) -> Iterator[Wakes | Rule]:
            for section, rules in parts:
                one, two = before, after
                if section:
                    one, two = before.get(section) or {}, after.get(section) or {}
                    if one == two:
                        continue
                for name in one if one.keys() == two.keys() else one.keys() | two.keys():
                    if one.get(name) != two.get(name) and (rule := rules.get(name, others)) is not NOBODY:
                        yield rule

        return changed

    def _rules(self, section: str) -> dict[str, Wakes | Rule]:
        """By name of a field. A section speaks through its own fields."""
        sections: dict[str, Wakes | Rule] = {} if section else dict.fromkeys(self._sections, NOBODY)
        return {row.name: row.wakes for row in self._rows(section)} | sections

    def _rows(self, section: str) -> list[StoredField]:
        return [field_ for field_ in self.fields if field_.section == section]

    @property
    def _sections(self) -> list[str]:
        return [section for section in dict.fromkeys(field_.section for field_ in self.fields) if section]


def _copier(
    rows: list[StoredField], is_whole: bool
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]:
    """Make a function that copies a part of an object: the rows, and everything else of a kind kept whole."""
    parts = [
        (row.name, row.excerpt, row.default)
        for row in rows
        if row.excerpt is not None or row.default is not None
    ]
    cut = frozenset(name for name, *_ in parts)
    names = tuple(row.name for row in rows if row.name not in cut)

    def copy_part(part: Mapping[str, Any], obj: Mapping[str, Any]) -> dict[str, Any]:
        if is_whole:
            made = {name: value for name, value in part.items() if name not in cut}
        else:
            made = {name: part[name] for name in names if name in part}
        for name, excerpt, default in parts:
            value = part.get(name)
            if value is None:
                value = default
            elif excerpt is not None:
                value = excerpt(value, obj)
            if value is not None:
                made[name] = value
        return made

    return copy_part
