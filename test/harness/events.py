"""Read the Events about a set, in the order of their creation, in a form that tests can compare."""

from __future__ import annotations

from typing import Any, NamedTuple

from test.harness.waiting import eventually
from test.harness.world import World


class Event(NamedTuple):
    """One Event.

    related: kind and name of the related object; empty without one.
    """

    type: str
    reason: str
    action: str
    note: str
    related: str = ""


def events_of(world: World, name: str) -> list[Event]:
    """Return all Events about the set of this name."""
    return [_event(event) for event in raw_events_of(world, name)]


def wait_for_events(world: World, name: str, reason: str, count: int = 1) -> list[Event]:
    """Wait for `count` Events with this reason. Some Events are delayed for a few seconds to be combined."""
    return eventually(
        f"{name} has {count} Events {reason}",
        lambda: [event for event in events_of(world, name) if event.reason == reason],
        lambda events: len(events) >= count,
    )


def notes_of(world: World, name: str) -> list[str]:
    """Return the notes of all Events about the set."""
    return [event.note for event in events_of(world, name)]


def raw_events_of(world: World, name: str) -> list[dict[str, Any]]:
    """Return all Events about the set of this name as the API server stores them, in the order of their
    creation.
    """
    of_name = [event for event in world.list("Event") if event["regarding"]["name"] == name]
    of_set = [event for event in of_name if event["regarding"]["kind"] == "LeaderWorkerSet"]
    return sorted(of_set, key=lambda event: str(event.get("eventTime")))


def _event(stored: dict[str, Any]) -> Event:
    related = stored.get("related") or {}
    return Event(
        stored["type"],
        stored["reason"],
        stored.get("action", ""),
        stored["note"],
        f"{related['kind']} {related['name']}" if related else "",
    )
