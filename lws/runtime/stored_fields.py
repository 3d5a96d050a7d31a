"""The fields of one kind that decisions read.

They determine what is kept of an object, which changes count, and which passes a change triggers.

`tables.py` has a row for each field. Closures are built from them once, because they run for every event.
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
    """The passes that a change triggers, over the sets and groups that the object concerns."""

    NONE = 0
    """No pass. The field is read by passes that something else triggers."""
    SET = 1
    """Passes over sets."""
    LATER = 2
    """All passes. The pass over a group can be delayed once the workers of the group exist."""
    ALL = 3


NONE, SET, LATER, ALL = Wakes

Excerpt = Callable[[Any, Mapping[str, Any]], Any]
"""A function from the value of a field and the whole object to the part to keep, or None."""
Rule = Callable[[Object, Object], Wakes]
"""A function from an object before and after a change of a field to the passes that the change triggers."""


def nothing(value: Any, obj: Mapping[str, Any]) -> None:
    """Drop the field from an object that is otherwise kept whole."""


@dataclass(frozen=True, slots=True)
class StoredField:
    """One field that decisions read.

    path: `section.name`, or `name` at the top of the object. wakes: the passes that a change of the field
    triggers. excerpt: a function that returns the part to keep; by default, all of it. default: the value to
    keep if the field is absent.
    """

    path: str
    wakes: Wakes | Rule = ALL
    excerpt: Excerpt | None = None
    default: Any = None

    @property
    def section(self) -> str:
        """The section of the object; empty for the top of the object."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class StoredFields:
    """All fields of one kind that decisions read.

    others: the passes that changes of fields without a row trigger; None if such fields are not kept.
    is_undisturbed: a predicate for objects that follow the rules. Any change of others triggers all passes.
    variant: a predicate for some objects of the kind, and the table for them.
    """

    kind: str
    fields: tuple[StoredField, ...]
    others: Wakes | None = None
    is_undisturbed: Callable[[Object], bool] | None = None
    variant: tuple[Callable[[Mapping[str, Any]], bool], StoredFields] | None = None

    def of(self, obj: Mapping[str, Any]) -> StoredFields:
        """Return the table for this object."""
        return self.variant[1] if self.variant is not None and self.variant[0](obj) else self

    @cached_property
    def trim(self) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """A function that returns the part of an object that decisions read."""
        kind, is_whole = self.kind, self.others is not None
        copy_top, has_top = _copier(self._rows(""), is_whole), is_whole or bool(self._rows(""))
        sections = [(section, self._rows(section)) for section in self._sections]
        copiers = [
            (section, _copier(rows, is_whole))
            for section, rows in sections
            if not is_whole or any(row.excerpt is not None for row in rows)
        ]

        def trim(obj: Mapping[str, Any]) -> dict[str, Any]:
            part = copy_top(obj, obj) if has_top else {}
            if not is_whole:
                # Every event has its own copies of these strings.
                part["apiVersion"], part["kind"] = sys.intern(obj["apiVersion"]), kind
            for section, copy_part in copiers:
                part[section] = copy_part(obj.get(section) or {}, obj)
            return part

        return trim

    @cached_property
    def is_same(self) -> Callable[[Object, Object], bool]:
        """A function that reports whether two states of an object differ in nothing that triggers a pass."""
        changed = self._changed
        return lambda before, after: next(changed(before, after), None) is None

    @cached_property
    def wakes(self) -> Rule:
        """A function that returns the passes that a change of an object triggers."""
        if all(field_.wakes in (NONE, ALL) for field_ in self.fields):
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
            most = NONE
            for rule in rules:
                woken = rule if isinstance(rule, Wakes) else rule(before, after)
                most = woken if woken > most else most
            return most

        return wakes

    @cached_property
    def _changed(self) -> Callable[[Object, Object], Iterator[Wakes | Rule]]:
        """A function that yields what each changed field triggers, without fields that trigger nothing."""
        others = NONE if self.others is None else self.others
        # The fields that change most often are last in an object.
        parts = [(section, self._rules(section)) for section in (*reversed(self._sections), "")]
        parts = [(section, rules) for section, rules in parts if others or any(rules.values())]

        def changed(before: Object, after: Object) -> Iterator[Wakes | Rule]:
            for section, rules in parts:
                old, new = before, after
                if section:
                    old, new = before.get(section) or {}, after.get(section) or {}
                    if old == new:
                        continue
                for name in old if old.keys() == new.keys() else old.keys() | new.keys():
                    if old.get(name) != new.get(name) and (rule := rules.get(name, others)) is not NONE:
                        yield rule

        return changed

    def _rules(self, section: str) -> dict[str, Wakes | Rule]:
        """Return the rule of each field in a section, by name. Sections count by their fields."""
        sections: dict[str, Wakes | Rule] = {} if section else dict.fromkeys(self._sections, NONE)
        return {row.name: row.wakes for row in self._rows(section)} | sections

    def _rows(self, section: str) -> list[StoredField]:
        return [field_ for field_ in self.fields if field_.section == section]

    @property
    def _sections(self) -> list[str]:
        return [section for section in dict.fromkeys(field_.section for field_ in self.fields) if section]


def _copier(
    rows: list[StoredField], is_whole: bool
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]:
    """Build a function that copies a part of an object: its rows, or everything of a kind kept whole."""
    parts = [
        (row.name, row.excerpt, row.default)
        for row in rows
        if row.excerpt is not None or row.default is not None
    ]
    cut = frozenset(name for name, *_ in parts)
    names = tuple(row.name for row in rows if row.name not in cut)

    def copy_part(part: Mapping[str, Any], obj: Mapping[str, Any]) -> dict[str, Any]:
        if is_whole:
            copy = {name: value for name, value in part.items() if name not in cut}
        else:
            copy = {name: part[name] for name in names if name in part}
        for name, excerpt, default in parts:
            value = part.get(name)
            if value is None:
                value = default
            elif excerpt is not None:
                value = excerpt(value, obj)
            if value is not None:
                copy[name] = value
        return copy

    return copy_part
