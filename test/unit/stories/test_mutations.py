"""Tests with random edits of revisions, records in statuses, labels and annotations.

No pass and no command raises, and nothing that runs is deleted. The test makes 2,000 edits by default, and
50,000 other ones with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, cast

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lws.cli.commands.diff import difference_lines, side_by_side
from lws.cli.commands.history import history_data, history_table, one_revision
from lws.cli.commands.plan import recreated
from lws.cli.commands.status import progress_line, status_blocks, status_data
from lws.cli.commands.undo import appliers, check, operations
from lws.cli.histories import SetObjects, all_of, leaders_of, set_history
from lws.cli.impact import impact, impact_lines
from lws.cli.screen import yaml_text
from lws.cli.session import Refusal, Session
from lws.cli.sets import NamedSet, find
from lws.cli.states import report_on
from lws.kube.metadata import is_terminating, labels_of
from lws.leaderworkerset.revisions.history import describe
from lws.runtime.actions import Apply, Create, Key, Plan, Verbatim
from lws.runtime.client.user_cluster import UserCluster
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_KEY_LABEL, NAME_LABEL
from test.unit.builders import make_pod_template, make_set
from test.unit.stories import mutations
from test.unit.stories.fake_cluster import NAME, NAMESPACE, FakeCluster
from test.unit.stories.fake_manager import FakeManager
from test.unit.stories.world import World

EDITS = {"default": 2_000, "nightly": 50_000}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
_AT_ONCE = 4
_MOST_PASSES = 60
_CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
_FIELDS: dict[str, Any] = {
    "leaderService": {"ports": [{"name": "http", "port": 80}]},
    "maxGroupRestarts": 3,
    "podDisruptionBudget": {"maxUnavailableGroups": 1},
    "progressDeadlineSeconds": 600,
    "revisionHistoryLimit": 5,
}


def _settings(edits: int) -> settings:
    return settings(
        max_examples=edits // _AT_ONCE,
        derandomize=PROFILE == "default",
        deadline=None,
        database=None,
        # Seeds differ in the work that they cause.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def settled(loop: asyncio.AbstractEventLoop) -> FakeCluster:
    """Return two settled groups of three on the third of three revisions."""
    cluster = FakeCluster(has_feature=False)
    policy = {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 1}
    retention = {"whenDeleted": "Delete"}
    extra = {
        "subGroupPolicy": policy,
        "volumeClaimTemplates": [_CLAIM],
        "persistentVolumeClaimRetentionPolicy": retention,
    }
    cluster.add(make_set(NAME, image="A", size=1, replicas=2, template=extra, max_surge=0, **_FIELDS))
    cluster.add(_claim_of("0"))
    world = World(loop, cluster)
    for revision in ("A", "C", "E"):
        world.change(revision)
        world.settle()
    return cluster


def _claim_of(group: str) -> dict[str, Any]:
    labels = {NAME_LABEL: NAME, GROUP_INDEX_LABEL: group, GROUP_KEY_LABEL: "key"}
    metadata = {"name": f"data-{NAME}-{group}-1", "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}


class _Cluster(FakeCluster):
    """The API that commands use, over the same objects."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.__dict__ = cluster.__dict__

    async def listed(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        return [obj for obj in self.of_kind(kind) if NAME_LABEL in labels_of(obj)]


@_settings(EDITS[PROFILE])
@given(seed=st.integers(0, 2**64 - 1))
def test_no_edit_fails_a_pass_or_a_command_or_deletes_a_pod(
    seed: int, loop: asyncio.AbstractEventLoop, settled: FakeCluster
) -> None:
    before = running(settled)

    def check(cluster: FakeCluster) -> None:
        assert running(cluster) == before

    _play(loop, settled.copy(), random.Random(seed), mutations.edit, check)


@_settings(EDITS[PROFILE] // 10)
@given(seed=st.integers(0, 2**64 - 1))
def test_no_spec_accepted_by_another_crd_version_fails_a_pass_or_a_command(
    seed: int, loop: asyncio.AbstractEventLoop, settled: FakeCluster
) -> None:
    _play(loop, settled.copy(), random.Random(seed), mutations.edit_wish, lambda cluster: None)


def _play(
    loop: asyncio.AbstractEventLoop,
    cluster: FakeCluster,
    pick: random.Random,
    edit: Callable[[FakeCluster, random.Random], mutations.Edit],
    check: Callable[[FakeCluster], None],
) -> None:
    """Make edits under a running manager, then run a command and a manager that starts with all edits."""
    manager, edits = FakeManager(cluster, loop, check_sendable), []
    try:
        for _ in range(_AT_ONCE):
            edits.append(edit(cluster, pick))
            catch_up(manager)
            check(cluster)
        _run_commands(loop, cluster, pick)
        catch_up(FakeManager(cluster, loop, check_sendable))
        check(cluster)
    except BaseException as error:
        error.add_note("; ".join(map(str, edits)))
        raise


def running(cluster: FakeCluster) -> dict[str, object]:
    """Return what runs, by UID."""
    return {
        obj["metadata"]["uid"]: (
            is_terminating(obj),
            obj["spec"] if obj["kind"] == "Pod" else [obj["spec"][part] for part in ("replicas", "template")],
        )
        for kind in ("Pod", "StatefulSet")
        for obj in cluster.of_kind(kind)
    }


def check_sendable(key: Key, snapshot: object, plan: Plan) -> None:
    """Check that every write can be encoded: the API server in memory accepts any value."""
    for announce in plan.announce:
        announce.note.encode()
    for action in (*chain(*plan.sequences), *plan.statuses):
        body = action.intent if isinstance(action, Apply | Create) else getattr(action, "patch", None)
        orjson.dumps(body, default=_text, option=orjson.OPT_PASSTHROUGH_DATACLASS)


def _text(value: object) -> str:
    assert isinstance(value, Verbatim)
    value.text.encode()
    return value.text


def catch_up(manager: FakeManager) -> None:
    """Read all events and run all passes that they enqueue."""
    for _ in range(_MOST_PASSES):
        for kind in manager.late:
            manager.read(kind)
        if not manager.run_pass() and not manager.late:
            return
    raise AssertionError(f"no rest: {sorted(manager.queue.keys)}")


def _run_commands(loop: asyncio.AbstractEventLoop, cluster: FakeCluster, pick: random.Random) -> None:
    """Run one of the reading commands. All of them would take longer than the passes."""
    session = Session(cast(UserCluster, _Cluster(cluster)), NAMESPACE)
    command = pick.choice([_history, _undo, _status, _plan])
    read = all_of if command in (_status, _plan) else leaders_of
    with contextlib.suppress(Refusal):
        lws = loop.run_until_complete(find(session, NamedSet(NAME)))
        command(loop.run_until_complete(read(session, lws)))


def _history(objects: SetObjects) -> None:
    now, past = datetime.now(UTC), set_history(objects.snapshot, objects.revisions)
    list(past.complaints())
    history_table(past, now)
    history_data(past, past.revisions, with_content=True)
    for revision in past.revisions[:1]:
        list(one_revision(past, revision, now))


def _undo(objects: SetObjects) -> None:
    past = set_history(objects.snapshot, objects.revisions)
    for revision in past.revisions:
        with contextlib.suppress(Refusal):
            old, new = past.before(revision), past.numbered(revision.number)
            list(difference_lines(describe(old.record, new.record)))
            side_by_side(("old", "new"), (yaml_text(past.compared(old)), yaml_text(past.compared(new))))
        with contextlib.suppress(Refusal):
            target = past.numbered(revision.number)
            check(objects.lws, target)
            operations(objects.lws, target)
    appliers(objects.lws)


def _status(objects: SetObjects) -> None:
    standing = report_on(objects)
    list(status_blocks(standing))
    progress_line(standing)
    status_data(standing)


def _plan(objects: SetObjects) -> None:
    template = {**objects.lws["spec"]["leaderWorkerTemplate"], "workerTemplate": make_pod_template("B")}
    changed = {**objects.lws, "spec": {**objects.lws["spec"], "leaderWorkerTemplate": template}}
    list(impact_lines(impact(objects.snapshot, changed, recreated(objects.groups, changed))))
