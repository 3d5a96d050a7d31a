"""Sets with one revision per image, as the commands of `lws` read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lws.cli.histories import SetHistory, SetObjects, set_history
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.revisions.reading import is_ours, parse
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit import api_server
from test.unit.builders import NOW, build_revision, make_group, make_leader_statefulset, make_set

Object = dict[str, Any]


def revision_of(lws: Mapping[str, Any], number: int, **metadata: Any) -> Object:
    """Return the ControllerRevision of the set's current state, as the API server returns it."""
    return api_server.stored(dict(build_revision(lws, record(lws), number)), **metadata)


def sets(*images: str, **options: Any) -> list[Object]:
    """Return one version of a set for each image."""
    return [make_set(image=image, **options) for image in images]


def snapshot_of(
    lws: Object, revisions: list[Object], running: list[Object] | None = None, leader: Object | None = None
) -> SetSnapshot:
    """Return the snapshot of a set.

    running: the version of the set that each group runs, from group 0 on; the current one by default.
    """
    replicas = lws["spec"]["replicas"]
    groups = tuple(
        make_group(as_it_runs, index, key=record(as_it_runs).key)
        for index, as_it_runs in enumerate(running if running is not None else [lws] * replicas)
    )
    return SetSnapshot(
        lws=lws,
        now=NOW,
        leaders=leader if leader is not None else make_leader_statefulset(lws, key=record(lws).key),
        groups=groups,
        revisions=tuple(parse(revision) for revision in revisions if is_ours(revision, lws)),
        live_keys=frozenset(record(version).key for version in running or [lws]),
    )


def past(
    *states: Object, running: list[Object] | None = None, extra: list[Object] | None = None
) -> SetHistory:
    """Return the history of a set that went through these states, the last of which is current."""
    revisions = [revision_of(state, number) for number, state in enumerate(states, start=1)] + (extra or [])
    return set_history(snapshot_of(states[-1], revisions, running), revisions)


def set_objects(
    snapshot: SetSnapshot, revisions: list[Object], pods: Mapping[str, Object] | None = None
) -> SetObjects:
    """Return all objects of a set; the pods are the leaders of its groups, and `pods`."""
    groups = {
        group.index: GroupSnapshot(
            lws=snapshot.lws,
            leader=group.leader,
            now=snapshot.now,
            worker_statefulset=group.worker_statefulset,
            revision=next(
                (
                    revision
                    for revision in snapshot.revisions
                    if revision.key == group.leader["metadata"]["labels"].get(REVISION_LABEL)
                ),
                None,
            ),
        )
        for group in snapshot.groups
    }
    leaders = {group.leader["metadata"]["name"]: group.leader for group in snapshot.groups}
    return SetObjects(snapshot.lws, snapshot, groups, {**leaders, **(pods or {})}, tuple(revisions))


def with_status(snapshot: SetSnapshot, **status: Any) -> SetSnapshot:
    """Return the snapshot with a status that the controller has written for its generation."""
    generation = snapshot.lws["metadata"]["generation"]
    reported = {"observedGeneration": generation, "conditions": [{"type": "Available", "status": "True"}]}
    lws = {**snapshot.lws, "status": {**reported, **status}}
    return replace(snapshot, lws=lws)
