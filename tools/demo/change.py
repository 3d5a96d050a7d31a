"""Answers: what is new, what stayed, and what was touched between two views?

In: two views. Out: checks. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tools.demo.check import Check, equal, none_of, same_members
from tools.demo.facts import Pod
from tools.demo.record import Kind, View

CHILDREN = (Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)


def verify_new(claim: str, before: Iterable[Pod], after: Collection[Pod]) -> Check:
    """None of the pods was there before."""
    known = {pod.uid for pod in before}
    return none_of(claim, [pod.name for pod in after if pod.uid in known], len(after))


def verify_kept(claim: str, before: Collection[Pod], after: Iterable[Pod]) -> Check:
    """All pods are still there, as the same objects."""
    there = {pod.uid for pod in after}
    return none_of(claim, [pod.name for pod in before if pod.uid not in there], len(before))


def verify_untouched(before: View, after: View) -> list[Check]:
    """Not one of the objects that a set is made of was made anew, changed or even written."""
    checks = []
    for kind in CHILDREN:
        old, new = versions(before, kind), versions(after, kind)
        claim = f"{len(old)} {kind}s have the UID, generation and resourceVersion they had"
        if len(old) == 1:
            claim = f"1 {kind} has the UID, generation and resourceVersion it had"
        checks.append(same_members(claim, old, new))
    return checks


def verify_gone(view: View, kept: Collection[str]) -> list[Check]:
    """Nothing of any followed kind is left but what was there before; Events are history and stay."""
    checks = []
    for kind in (Kind.SET, Kind.POD, *CHILDREN):
        left = {each["metadata"]["uid"]: each["metadata"]["name"] for each in view.objects[kind]}
        names = sorted(name for uid, name in left.items() if uid not in kept)
        checks.append(equal(f"0 {kind}s are left", "none", ", ".join(names) or "none"))
    return checks


def versions(view: View, kind: Kind) -> list[str]:
    """Every object of a kind with what changes when it is replaced, edited or written."""
    return [
        f"{metadata['name']} {metadata['uid']} generation {metadata.get('generation', 0)}"
        f" version {metadata['resourceVersion']}"
        for metadata in (each["metadata"] for each in view.objects[kind])
    ]
