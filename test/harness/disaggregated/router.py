"""Where could a router send requests that knows nothing but Services, EndpointSlices and labels?

In: a set, from the moment of making this on. Out: at each moment, for every revision of a slice that has
Services, how many ready endpoints each role has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from test.harness.following import Change, Following
from test.harness.groups import labels_of
from test.harness.world import World

_SERVICE, _ENDPOINTS = "Service", "EndpointSlice"
Revision = tuple[str, str]
"""Slice and key."""


@dataclass(frozen=True)
class View:
    """What the router knows at one moment. version: of the store. endpoints: revision → role → how many, of
    roles that have a Service.
    """

    version: int
    endpoints: Mapping[Revision, Mapping[str, int]]

    def whole(self, roles: frozenset[str]) -> set[Revision]:
        """Revisions that answer in every role."""
        return {each for each, of in self.endpoints.items() if all(of.get(role) for role in roles)}

    def halves(self, roles: frozenset[str]) -> set[Revision]:
        """Revisions that answer in some roles only."""
        return {each for each, of in self.endpoints.items() if any(of.values())} - self.whole(roles)


class Router:
    """Follows the Services of one set."""

    def __init__(self, world: World, name: str) -> None:
        self._streams = {
            kind: Following(world.api, world.path(kind), f"{NAME_LABEL}={name}", world.ended)
            for kind in (_SERVICE, _ENDPOINTS)
        }

    def views(self) -> list[View]:
        """One after each change until now."""
        told: list[tuple[str, Change]] = []
        for kind, stream in self._streams.items():
            stream.catch_up()
            begun = stream.beginning()
            told += [(kind, Change(begun.version, 0.0, name, obj)) for name, obj in begun.frame.items()]
            told += [(kind, each) for each in stream.changes()]
        known: dict[str, dict[str, Any]] = {_SERVICE: {}, _ENDPOINTS: {}}
        found = []
        for kind, change in sorted(told, key=lambda each: each[1].version):
            known[kind].pop(change.name, None)
            if change.obj is not None:
                known[kind][change.name] = change.obj
            found.append(View(change.version, _endpoints(known[_SERVICE], known[_ENDPOINTS].values())))
        return found


def broken_revisions(
    views: list[View], roles: frozenset[str], emptied: Mapping[Revision, int]
) -> list[tuple[Revision, View]]:
    """Halves of revisions that had been whole, before anybody wanted their groups to go. Endpoints of a
    revision come one after the other, and go so. emptied: from which version on a revision was to have a role
    without groups.
    """
    was_whole: set[Revision] = set()
    found = []
    for view in views:
        was_whole |= view.whole(roles)
        found += [
            (each, view)
            for each in view.halves(roles) & was_whole
            if each not in emptied or view.version < emptied[each]
        ]
    return found


def _endpoints(services: Mapping[str, Any], slices: Any) -> dict[Revision, dict[str, int]]:
    found: dict[Revision, dict[str, int]] = {}
    for service in services.values():
        of = found.setdefault(_revision(service), {})
        of.setdefault(labels_of(service).get(ROLE_LABEL, ""), 0)
    for each in slices:
        service = services.get(labels_of(each).get("kubernetes.io/service-name", ""))
        if service is not None:
            found[_revision(service)][labels_of(service).get(ROLE_LABEL, "")] += sum(1 for _ in _ready(each))
    return found


def _revision(service: Mapping[str, Any]) -> Revision:
    labels = labels_of(service)
    return labels.get(SLICE_LABEL, "0"), labels.get(REVISION_LABEL, "")


def _ready(slice_: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in slice_.get("endpoints") or () if (each.get("conditions") or {}).get("ready"))
