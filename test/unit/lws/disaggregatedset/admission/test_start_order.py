"""Tests of lws.disaggregatedset.admission.validation: roles that wait for others."""

from __future__ import annotations

import pytest

from test.unit.lws.disaggregatedset.admission.builders import Object, make_role, make_set, messages


def ordered(**after: list[str]) -> Object:
    return make_set(*(make_role(name) | {"startAfter": names} for name, names in after.items()))


CASES = {
    "a chain": (ordered(a=[], b=["a"], c=["a", "b"]), []),
    "a diamond": (ordered(a=[], b=["a"], c=["a"], d=["b", "c"]), []),
    "unknown": (
        ordered(a=["b", "z"], b=[]),
        ['spec.roles[0].startAfter[1]: Unsupported value: "z": supported values: "a", "b"'],
    ),
    "self-reference": (
        ordered(a=["a"], b=[]),
        ['spec.roles[0].startAfter: Invalid value: ["a"]: goes round in a circle: a waits for a'],
    ),
    "cycle of two": (
        ordered(a=["b"], b=["a"]),
        ['spec.roles[0].startAfter: Invalid value: ["b"]: goes round in a circle: a waits for b waits for a'],
    ),
    "cycle of other roles": (
        ordered(a=["b"], b=["c"], c=["d"], d=["b"]),
        [
            'spec.roles[1].startAfter: Invalid value: ["c"]: goes round in a circle: '
            "b waits for c waits for d waits for b"
        ],
    ),
    "two circles": (
        ordered(a=["b"], b=["a"], c=["c"]),
        [
            'spec.roles[0].startAfter: Invalid value: ["b"]: goes round in a circle: '
            "a waits for b waits for a",
            'spec.roles[2].startAfter: Invalid value: ["c"]: goes round in a circle: c waits for c',
        ],
    ),
}


@pytest.mark.parametrize(("raw", "expected"), CASES.values(), ids=CASES.keys())
def test_start_order(raw: Object, expected: list[str]) -> None:
    assert messages(raw) == expected


def test_a_stored_cycle_is_not_rejected_on_update() -> None:
    old, new = ordered(a=["b"], b=["a"]), ordered(a=["b"], b=["a"], c=[])
    assert messages(new, old) == []
    assert len(messages(old, ordered(a=["b"], b=[]))) == 1
