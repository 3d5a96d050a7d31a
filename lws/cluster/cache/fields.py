"""The fields of one kind that decisions read, and what follows from the list: what is kept of an object,
which changes count, and which passes they wake.

In: rows, one per field (`tables.py` has them). Out: closures made of them once: they run for every event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial, reduce
from operator import eq, is_, is_not
from typing import Any

from lws.actions import Object


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
_Test = Callable[[Object, Object], bool]


@dataclass(frozen=True, slots=True)
class Field:
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
class Table:
    """All that is read of one kind.

    others: whom changes of fields without a row wake; None where such fields are not kept at all.
    is_undisturbed: true of objects whose changes the rules may judge; any change of another one wakes all.
    variant: the table of some objects of the kind, and which these are.
    """

    kind: str
    fields: tuple[Field, ...]
    others: Wakes | None = None
    is_undisturbed: Callable[[Object], bool] | None = None
    variant: tuple[Callable[[Mapping[str, Any]], bool], Table] | None = None

    def of(self, obj: Mapping[str, Any]) -> Table:
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
            if not is_whole or any(each.excerpt is not None for each in rows)
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
    def is_same(self) -> _Test:
        """Do two states of an object differ in nothing that wakes anybody?"""
        return self._comparison(partial(is_not, NOBODY))

    @cached_property
    def wakes(self) -> Rule:
        """The passes that a change of an object wakes."""
        rules = [
            (self._comparison(partial(is_, rule)), rule)
            for rule in dict.fromkeys(each.wakes for each in self.fields)
            if rule not in (NOBODY, ALL)
        ]
        if not rules:
            return lambda before, after: ALL
        is_same_else, is_undisturbed = self._comparison(partial(is_, ALL)), self.is_undisturbed

        def wakes(before: Object, after: Object) -> Wakes:
            if not is_same_else(before, after):
                return ALL
            if is_undisturbed is not None and not (is_undisturbed(before) and is_undisturbed(after)):
                return ALL
            most = NOBODY
            for is_same, rule in rules:
                if not is_same(before, after):
                    woken = rule if isinstance(rule, Wakes) else rule(before, after)
                    most = woken if woken > most else most
            return most

        return wakes

    def _rows(self, section: str) -> list[Field]:
        return [each for each in self.fields if each.section == section]

    @property
    def _sections(self) -> list[str]:
        return [section for section in dict.fromkeys(each.section for each in self.fields) if section]

    def _comparison(self, counts: Callable[[Wakes | Rule], bool]) -> _Test:
        """Do two states of an object agree in the fields that count?"""
        is_rest = self.others is not None and counts(self.others)
        top = [each.name for each in self._rows("") if counts(each.wakes)]
        tests: list[_Test] = []
        for section in reversed(self._sections):
            rows = self._rows(section)
            counting = [each.name for each in rows if counts(each.wakes)]
            if is_rest:
                tests.append(_all_but(section, {each.name for each in rows} - {*counting}))
            elif self.others is None and len(counting) == len(rows):
                top.append(section)
            elif counting:
                tests.append(_equal_in(section, counting))
        if is_rest:
            passed_over = {*self._sections, *(each.name for each in self._rows(""))} - {*top}
            tests.insert(0, _all_but("", passed_over))
        elif top:
            tests.insert(0, _equal_in("", top))
        return reduce(_both, tests or [lambda before, after: True])


def _copier(
    rows: list[Field], is_whole: bool
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]:
    """What copies a part of an object: the rows, and all else too where the kind is kept whole."""
    parts = [
        (each.name, each.excerpt, each.default)
        for each in rows
        if each.excerpt is not None or each.default is not None
    ]
    cut = frozenset(name for name, *_ in parts)
    names = tuple(each.name for each in rows if each.name not in cut)

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


def _both(first: _Test, second: _Test) -> _Test:
    return lambda before, after: first(before, after) and second(before, after)


def _equal_in(section: str, names: Iterable[str]) -> _Test:
    fixed = tuple(names)
    if section and len(fixed) == 1:
        name = fixed[0]
        return lambda before, after: (
            (before.get(section) or {}).get(name) == (after.get(section) or {}).get(name)
        )
    if not section:
        return lambda before, after: all(map(eq, map(before.get, fixed), map(after.get, fixed)))

    def is_same(before: Object, after: Object) -> bool:
        one, two = before.get(section) or {}, after.get(section) or {}
        return all(map(eq, map(one.get, fixed), map(two.get, fixed)))

    return is_same


def _all_but(section: str, passed_over: Iterable[str]) -> _Test:
    but = frozenset(passed_over)

    def is_same(before: Object, after: Object) -> bool:
        one, two = (before.get(section) or {}, after.get(section) or {}) if section else (before, after)
        return all(one.get(name) == two.get(name) for name in (one.keys() | two.keys()) - but)

    return is_same
