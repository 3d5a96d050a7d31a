"""Can the roles of a set be created in the order that it asks for?

In: a set with values of the right types. Out: errors about names of no role, and about roles that wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lws.admission.disaggregatedset.facts import SetFacts
from lws.admission.errors import FieldError, invalid, not_supported


def start_order_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Everything that is wrong with `startAfter`: one error at most for each circle.

    Whatever the order of roles, a circle is reported in the same words.
    """
    names = [role.name for role in facts.roles]
    awaited = {role.name: [each for each in role.start_after if each in names] for role in facts.roles}
    for role in facts.roles:
        for index, name in enumerate(role.start_after):
            if name not in names:
                yield not_supported(f"{role.path}.startAfter[{index}]", name, names)
        circle = _circle_from(role.name, awaited)
        if circle and role.name == min(circle):
            chain = " waits for ".join((*circle, role.name))
            yield invalid(
                f"{role.path}.startAfter", list(role.start_after), f"goes round in a circle: {chain}"
            )


def _circle_from(name: str, awaited: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The shortest way from a role back to itself; empty where there is none."""
    ways: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    for way in ways:
        for each in awaited[way[-1]]:
            if each == name:
                return way
            if each not in seen:
                seen.add(each)
                ways.append((*way, each))
    return ()
