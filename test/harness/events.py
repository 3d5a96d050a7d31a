"""What are users told? The Events about a set, in a form that can be compared.

In: a namespace and the name of a set. Out: one `Told` per Event, in the order of their making.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from test.harness.waiting import eventually
from test.harness.world import World


class Event(NamedTuple):
    """related: kind and name, empty without one."""

    type: str
    reason: str
    action: str
    note: str
    related: str = ""


def events_of(world: World, name: str) -> list[Event]:
    """All Events about the set of that name."""
    return [_event(each) for each in raw_events_of(world, name)]


def told_of(world: World, name: str, reason: str, count: int = 1) -> list[Event]:
    """Those of one reason, once there are so many: some wait a few seconds for more of their kind."""
    return eventually(
        f"{name} has {count} Events {reason}",
        lambda: [each for each in events_of(world, name) if each.reason == reason],
        lambda found: len(found) >= count,
    )


def notes_of(world: World, name: str) -> list[str]:
    """What they say."""
    return [each.note for each in events_of(world, name)]


def raw_events_of(world: World, name: str) -> list[dict[str, Any]]:
    """The same as the API server has them."""
    found = [each for each in world.list("Event") if each["regarding"]["name"] == name]
    ours = [each for each in found if each["regarding"]["kind"] == "LeaderWorkerSet"]
    return sorted(ours, key=lambda each: str(each.get("eventTime")))


def _event(stored: dict[str, Any]) -> Event:
    related = stored.get("related") or {}
    return Event(
        stored["type"],
        stored["reason"],
        stored.get("action", ""),
        stored["note"],
        f"{related['kind']} {related['name']}" if related else "",
    )
