"""Compute where a router could send requests that knows only Services, EndpointSlices and labels.

At each moment there is a number of ready endpoints for each role of each revision of a slice that has
Services.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from test.harness.following import Change, Following
from test.harness.groups import labels_of
from test.harness.world import World

_SERVICE, _ENDPOINTS = "Service", "EndpointSlice"
Revision = tuple[str, str]
"""Slice and revision key."""


@dataclass(frozen=True)
class View:
    """The knowledge of the router at one moment.

    version: the version of the store.
    endpoints: revision → role → number of ready endpoints, for roles that have a Service.
    """

    version: int
    endpoints: Mapping[Revision, Mapping[str, int]]

    def whole(self, roles: frozenset[str]) -> set[Revision]:
        """Return the revisions that have ready endpoints in every role."""
        return {
            revision
            for revision, by_role in self.endpoints.items()
            if all(by_role.get(role) for role in roles)
        }

    def halves(self, roles: frozenset[str]) -> set[Revision]:
        """Return the revisions that have ready endpoints in some roles only."""
        answering = {revision for revision, by_role in self.endpoints.items() if any(by_role.values())}
        return answering - self.whole(roles)


class Router:
    """Follows the Services and EndpointSlices of one set."""

    def __init__(self, world: World, name: str) -> None:
        self._streams = {
            kind: Following(world.api, world.path(kind), f"{NAME_LABEL}={name}", world.ended)
            for kind in (_SERVICE, _ENDPOINTS)
        }

    def views(self) -> list[View]:
        """Return the view after each change until now."""
        changes: list[tuple[str, Change]] = []
        for kind, stream in self._streams.items():
            stream.catch_up()
            first = stream.beginning()
            changes += [(kind, Change(first.version, 0.0, name, obj)) for name, obj in first.frame.items()]
            changes += [(kind, change) for change in stream.changes()]
        objects: dict[str, dict[str, Any]] = {_SERVICE: {}, _ENDPOINTS: {}}
        views = []
        for kind, change in sorted(changes, key=lambda entry: entry[1].version):
            objects[kind].pop(change.name, None)
            if change.obj is not None:
                objects[kind][change.name] = change.obj
            views.append(View(change.version, _endpoints(objects[_SERVICE], objects[_ENDPOINTS].values())))
        return views


def broken_revisions(
    views: list[View], roles: frozenset[str], emptied: Mapping[Revision, int]
) -> list[tuple[Revision, View]]:
    """Return the revisions that were whole and then had endpoints in some roles only, although no role was
    scaled to 0.

    Before a revision is whole, and once a role is scaled to 0, endpoints come and go one after another.

    emptied: the version at which a role of a revision was scaled to 0.
    """
    was_whole: set[Revision] = set()
    broken = []
    for view in views:
        was_whole |= view.whole(roles)
        broken += [
            (revision, view)
            for revision in view.halves(roles) & was_whole
            if revision not in emptied or view.version < emptied[revision]
        ]
    return broken


def _endpoints(services: Mapping[str, Any], slices: Any) -> dict[Revision, dict[str, int]]:
    counts: dict[Revision, dict[str, int]] = {}
    for service in services.values():
        by_role = counts.setdefault(_revision(service), {})
        by_role.setdefault(labels_of(service).get(ROLE_LABEL, ""), 0)
    for slice_ in slices:
        service = services.get(labels_of(slice_).get("kubernetes.io/service-name", ""))
        if service is not None:
            by_role = counts[_revision(service)]
            by_role[labels_of(service).get(ROLE_LABEL, "")] += len(_ready(slice_))
    return counts


def _revision(service: Mapping[str, Any]) -> Revision:
    labels = labels_of(service)
    return labels.get(SLICE_LABEL, "0"), labels.get(REVISION_LABEL, "")


def _ready(slice_: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    endpoints = slice_.get("endpoints") or ()
    return [endpoint for endpoint in endpoints if (endpoint.get("conditions") or {}).get("ready")]
