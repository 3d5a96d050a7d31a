"""Answers: were users told why something happened?

In: a view. Out: checks of Events. Pure.
"""

from __future__ import annotations

from tools.demo.check import Check
from tools.demo.record import Kind, View


def verify_event(view: View, reason: str, about: str) -> Check:
    """An Event about the set gives this reason and names what it is about."""
    events = [
        each for each in view.objects[Kind.EVENT] if (each.get("regarding") or {}).get("kind") == Kind.SET
    ]
    notes = [str(each.get("note", "")) for each in events if each.get("reason") == reason]
    telling = next((note for note in notes if about in note), "")
    reasons = ", ".join(sorted({str(each.get("reason")) for each in events}))
    claim = f"an Event says why, {reason}: {telling}" if telling else f"an Event {reason} names {about}"
    return Check(claim, bool(telling), f"{reason} with {about}", f"{notes or f'only {reasons}'}")
