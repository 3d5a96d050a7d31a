"""May this DisaggregatedSet be stored?

In: the set as the API server decoded it, and as it was before. Out: errors or warnings; those of the original
controller in its order, at its paths and in its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from lws.admission.disaggregatedset.facts import SetFacts, facts_of, identity_of, shape_errors
from lws.admission.disaggregatedset.names import name_errors
from lws.admission.disaggregatedset.placement import placement_errors, placement_warnings
from lws.admission.disaggregatedset.reserved import reserved_errors, reserved_warnings
from lws.admission.disaggregatedset.restarts import restart_warnings
from lws.admission.disaggregatedset.roles import role_errors, role_warnings
from lws.admission.disaggregatedset.scaling import (
    clash_errors,
    scaler_errors,
    scaling_change_warnings,
    scaling_warnings,
)
from lws.admission.disaggregatedset.start_order import start_order_errors
from lws.admission.errors import FieldError, invalid
from lws.admission.leaderworkerset import MOST_TOLD
from lws.disaggregatedset.spec import number_faults
from lws.group.gang.provider import GangProvider
from lws.kube.metadata import is_terminating


def errors_in(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    others: Iterable[Mapping[str, Any]] = (),
) -> list[FieldError]:
    """Everything that forbids storing `new`; `old` is what is stored, None or empty on create.

    others: the sets of its namespace, whose scalers it must not need.

    An update is refused only for what it brings: an edit of an annotation of a set that an older release
    let through, or removes a finalizer from it, has nothing to do with what was stored before.
    """
    if _needs_no_check(new, old):
        return []
    wrong = shape_errors(new) or [
        invalid(*each) for each in islice(number_faults(new.get("spec") or {}), MOST_TOLD)
    ]
    if wrong:
        return wrong
    facts, before = facts_of(new), _facts_before(old)
    of_roles, of_the_set = list(_role_errors(facts, before)), list(_set_errors(facts))
    names = [*name_errors(facts, before), *clash_errors(facts, before, others)]
    found = [*of_roles, *names, *of_the_set]
    if before is None or not found:
        return found
    earlier = [*_role_errors(before, facts), *_set_errors(before)]
    known = {identity_of(each, before) for each in earlier}
    return [each for each in found if identity_of(each, facts) not in known]


def warnings_in(
    new: Mapping[str, Any], old: Mapping[str, Any] | None = None, gang: GangProvider | None = None
) -> list[str]:
    """What is stored although it is unwise; `old` is the stored object, None or empty on create.

    gang: who places groups as a whole. Nothing is said twice that was so before.
    """
    if _needs_no_check(new, old) or shape_errors(new):
        return []
    facts, before = facts_of(new), _facts_before(old)
    found = _warnings(facts, before, gang)
    if old is None or before is None:
        return found
    known = {before.by_names(each) for each in (_warnings(before, facts, gang) if found else ())}
    fresh = [each for each in found if facts.by_names(each) not in known]
    return [*scaling_change_warnings(old, before, facts), *fresh, *restart_warnings(new, old)]


def _role_errors(facts: SetFacts, other: SetFacts | None) -> Iterator[FieldError]:
    """other: the set before or after; of roles that are the same in it nothing need be said."""
    for role in facts.roles:
        yield from role_errors(facts, role, other)
        yield from scaler_errors(facts, role)


def _set_errors(facts: SetFacts) -> Iterator[FieldError]:
    """All others but those about names."""
    yield from placement_errors(facts)
    yield from start_order_errors(facts)
    yield from reserved_errors(facts)


def _warnings(facts: SetFacts, other: SetFacts | None, gang: GangProvider | None) -> list[str]:
    return [
        *scaling_warnings(facts),
        *placement_warnings(facts),
        *reserved_warnings(facts),
        *(warning for role in facts.roles for warning in role_warnings(facts, role, other, gang)),
    ]


def _facts_before(old: Mapping[str, Any] | None) -> SetFacts | None:
    return facts_of(old) if old and not shape_errors(old) else None


def _needs_no_check(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    return is_terminating(new) or bool(old and new.get("spec") == old.get("spec"))
