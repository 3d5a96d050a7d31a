"""lws.runtime.apply: order of writes, failures, Events and records, on a cluster that logs every request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lws.runtime.actions import (
    Action,
    Announce,
    Apply,
    Create,
    Delete,
    Merge,
    Plan,
    Reference,
    SetOwner,
    Status,
    Tally,
    Verbatim,
)
from lws.runtime.apply import Applier, Outcome, OwnerLocks, WriteHooks
from lws.runtime.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeading,
    Throttled,
    Unreachable,
    api_error,
)

SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-set")


def _event(note: str) -> Announce:
    return Announce(SET, "Reason", "Action", note)


def _object(name: str, owner: str = "u-set", kind: str = "Service", **metadata: Any) -> dict[str, Any]:
    owners = [{"kind": "LeaderWorkerSet", "name": "demo", "uid": owner, "controller": True}] if owner else []
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": owners, **metadata},
    }


def _reference(name: str, kind: str = "Pod") -> Reference:
    return Reference("v1", kind, "ns", name, f"u-{name}")


@dataclass
class _Cluster:
    """A cluster that answers every request with what was sent, or with a prepared answer, after a delay.

    diary: requests in the order in which they begin, with Events and records. failures, answers, slow: by
    name.
    """

    diary: list[str] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    slow: dict[str, int] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)

    async def apply(self, intent: Mapping[str, Any], force: bool) -> Mapping[str, Any]:
        return await self._answer("force" if force else "apply", intent["metadata"]["name"], intent)

    async def create(self, intent: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._answer("create", intent["metadata"]["name"], intent)

    async def get(self, kind: str, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._answer("get", name, {})

    async def merge(
        self, target: Reference, patch: Mapping[str, Any], subresource: str = ""
    ) -> Mapping[str, Any]:
        answer = {"kind": target.kind, "metadata": {}, **patch}
        return await self._answer(subresource or "merge", target.name, answer)

    async def delete(
        self, target: Reference, propagation: str, grace_seconds: int | None = None, version: str = ""
    ) -> Mapping[str, Any]:
        verb = f"delete {propagation}" + ("" if grace_seconds is None else f" within {grace_seconds} s")
        verb += f" at version {version}" if version else ""
        return await self._answer(verb, target.name, {"kind": "Status"})

    async def _answer(self, verb: str, name: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        self.diary.append(f"{verb} {name}")
        self.sent.append(answer)
        for _ in range(self.slow.get(name, 1)):
            await asyncio.sleep(0)
        failure = self.failures.get(f"{verb} {name}") or self.failures.get(name)
        if failure is not None:
            raise failure
        return self.answers.get(f"{verb} {name}", answer)


@dataclass
class _Bench:
    cluster: _Cluster = field(default_factory=_Cluster)
    put: list[Mapping[str, Any]] = field(default_factory=list)
    applied: list[tuple[Apply, Mapping[str, Any]]] = field(default_factory=list)
    refused: list[tuple[Action, ApiError]] = field(default_factory=list)
    done: list[Action] = field(default_factory=list)
    taken: list[Create] = field(default_factory=list)
    created: list[tuple[Create, Mapping[str, Any]]] = field(default_factory=list)
    gone: list[tuple[Reference, Mapping[str, Any]]] = field(default_factory=list)
    going: set[str] = field(default_factory=set)

    def announce(self, announce: Announce) -> None:
        self.cluster.diary.append(f"tell: {announce.note}")

    def _put(self, obj: Mapping[str, Any]) -> None:
        self.put.append(obj)

    def _applied(self, action: Apply, stored: Mapping[str, Any]) -> None:
        self.applied.append((action, stored))

    def _created(self, action: Create, stored: Mapping[str, Any]) -> None:
        self.created.append((action, stored))

    def _refused(self, action: Action, error: ApiError, owner: Reference) -> None:
        assert owner == SET
        self.refused.append((action, error))

    def _gone(self, target: Reference, answer: Mapping[str, Any]) -> None:
        self.gone.append((target, answer))

    def _done(self, action: Action, owner: Reference) -> None:
        assert owner == SET
        self.done.append(action)

    async def run(self, *sequences: tuple[Action, ...], **plan: Any) -> Outcome:
        cluster: Any = self.cluster
        hooks = (self._put, self._applied, self._refused, self.taken.append, self.going, self._gone)
        applier = Applier(cluster, self, WriteHooks(*hooks, succeeded=self._done, created=self._created))
        return await applier.apply(Plan(sequences=sequences, owner=SET, **plan))

    @property
    def diary(self) -> list[str]:
        return self.cluster.diary


@pytest.fixture
def bench() -> _Bench:
    return _Bench()


def _apply(name: str, **more: Any) -> Apply:
    return Apply(_object(name), why="because", announce=(_event(f"applied {name}"),), **more)


def _create(name: str, **more: Any) -> Create:
    return Create(_object(name), why="because", announce=(_event(f"created {name}"),), **more)


def _delete(name: str, **more: Any) -> Delete:
    return Delete(
        _reference(name), "Foreground", why="because", announce=(_event(f"deleted {name}"),), **more
    )


async def test_a_record_is_written_with_the_status_before_other_writes(bench: _Bench) -> None:
    memory = Merge(SET, {"status": {"rollout": {"partition": 1}}}, why="because", subresource="status")
    await bench.run((memory, _delete("d")))
    assert bench.diary[:2] == ["status demo", "delete Foreground d"]
    bench.cluster.failures["demo"] = Conflict(409, "Conflict", "m")
    bench.diary.clear()
    await bench.run((memory, _delete("d")))
    assert bench.diary == ["status demo"], "an action without its record is not run"


@pytest.mark.parametrize(
    ("owners", "is_done"),
    [
        pytest.param([], True, id="no controller"),
        pytest.param([{"kind": "Thing", "uid": "u-9", "controller": True}], False, id="another controller"),
    ],
)
async def test_an_orphan_adopted_by_another_client_is_left_alone(
    bench: _Bench, owners: list[Any], is_done: bool
) -> None:
    live = _object("a", owner="", uid="u-a", resourceVersion="7", ownerReferences=owners)
    bench.cluster.answers["get a"] = live
    adoption = SetOwner(_reference("a"), {"uid": "u-set"}, "because", announce=(_event("adopted a"),))
    outcome = await bench.run((adoption, _create("b")))
    assert (outcome.errors, outcome.overtaken) == ([], not is_done)
    if is_done:
        assert bench.diary == ["get a", "merge a", "tell: adopted a", "create b", "tell: created b"]
        patch = {"ownerReferences": [{"uid": "u-set"}], "resourceVersion": "7"}
        assert bench.cluster.sent[1]["metadata"] == patch
    else:
        assert bench.diary == ["get a"], "dependent actions are not run"
        assert bench.put == [live], "the next plan sees the owner"


async def test_no_adoption_for_an_owner_deleted_by_another_pass(bench: _Bench) -> None:
    cluster: Any = bench.cluster
    applier = Applier(
        cluster, bench, WriteHooks(bench._put, bench._applied, bench._refused, bench.taken.append)
    )
    await applier.apply(Plan(sequences=((_delete("leader"),),)))
    adoption = SetOwner(_reference("a"), {"uid": "u-leader"}, "because")
    await applier.apply(Plan(sequences=((adoption,),)))
    assert bench.diary == ["delete Foreground leader", "tell: deleted leader"]


async def test_no_create_for_an_owner_deleted_by_another_controller(bench: _Bench) -> None:
    cluster: Any = bench.cluster
    turns = OwnerLocks()
    one, other = (Applier(cluster, bench, WriteHooks(bench._put), turns) for _ in range(2))
    await one.apply(Plan(sequences=((_delete("leader"),),)))
    await other.apply(Plan(sequences=((SetOwner(_reference("a"), {"uid": "u-leader"}, "because"),),)))
    assert bench.diary == ["delete Foreground leader", "tell: deleted leader"]


STATUS = Status(SET, {"replicas": 1}, announce=(_event("status"),))


async def test_a_record_is_written_together_with_the_rest_of_the_status(bench: _Bench) -> None:
    memory = Merge(SET, {"status": {"rollout": {"partition": 1}}}, why="because", subresource="status")
    await bench.run((memory, _delete("d")), statuses=(STATUS,))
    assert bench.diary[:3] == ["status demo", "tell: status", "delete Foreground d"]
    assert bench.cluster.sent[0]["status"] == {"replicas": 1, "rollout": {"partition": 1}}


async def test_the_status_is_written_without_other_writes(bench: _Bench) -> None:
    memory = Merge(SET, {"status": {"rollout": {"partition": 1}}}, why="because", subresource="status")
    bench.cluster.failures["d"] = Forbidden(403, "Forbidden", "m")
    await bench.run((_delete("d"), memory), statuses=(STATUS,))
    assert bench.diary == ["delete Foreground d", "status demo", "tell: status"]
    assert bench.cluster.sent[1]["status"] == {"replicas": 1}


async def test_a_sequence_runs_in_order_and_each_event_follows_its_write(bench: _Bench) -> None:
    merge = Merge(_reference("c"), {"spec": {"replicas": 1}}, why="because", announce=(_event("merged c"),))
    bench.cluster.slow = {"a": 5}
    outcome = await bench.run((_create("a"), _apply("b"), merge, _delete("d")))
    assert outcome.errors == []
    assert bench.diary == [
        "create a",
        "tell: created a",
        "apply b",
        "tell: applied b",
        "merge c",
        "tell: merged c",
        "delete Foreground d",
        "tell: deleted d",
    ]


async def test_a_sequence_stops_at_its_first_failure_and_others_continue(bench: _Bench) -> None:
    bench.cluster.failures["b"] = Invalid(422, "Invalid", "not legal")
    outcome = await bench.run((_create("a"), _create("b"), _create("c")), (_create("x"), _create("y")))
    assert [error.message for error in outcome.errors] == ["not legal"]
    assert {line for line in bench.diary if line.startswith("create")} == {
        "create a",
        "create b",
        "create x",
        "create y",
    }
    assert "tell: created b" not in bench.diary and "tell: created y" in bench.diary
    assert {action.intent["metadata"]["name"] for action, _ in bench.created} == {"a", "x", "y"}
    assert all(stored == action.intent for action, stored in bench.created)


async def test_sequences_run_side_by_side(bench: _Bench) -> None:
    bench.cluster.slow = {"a": 50}
    await bench.run((_create("a"), _create("b")), (_create("x"), _create("y")))
    assert bench.diary.index("create y") < bench.diary.index("tell: created a")


@pytest.mark.parametrize(
    "failure",
    [
        None,
        Invalid(422, "Invalid", "x"),
        Unreachable("x"),
        Conflict(409, "Conflict", "x"),
        NotLeading("x"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_the_status_is_written_last_even_after_failures(
    bench: _Bench, failure: ClusterError | None
) -> None:
    if failure is not None:
        bench.cluster.failures["a"] = failure
    bench.cluster.slow = {"x": 20}
    outcome = await bench.run(
        (_create("a"),), (_create("x"),), statuses=(STATUS,), announce=(_event("by the way"),)
    )
    assert bench.diary[-3:] == ["status demo", "tell: status", "tell: by the way"]
    assert (bench.cluster.sent[-1]["kind"], bench.cluster.sent[-1]["status"]) == (SET.kind, {"replicas": 1})
    assert outcome.errors == ([failure] if failure is not None else [])


@pytest.mark.parametrize(
    ("stored", "then", "writes"),
    [
        pytest.param({"replicas": 1}, ("7", {"updateRevision": "demo-1"}), 1, id="unchanged"),
        pytest.param({"replicas": 1}, ("8", {"updateRevision": "demo-1"}), 2, id="another version"),
        pytest.param({"replicas": 1}, ("7", {"updateRevision": "demo-2"}), 2, id="something else"),
        pytest.param(
            {"replicas": 1, "updateRevision": "demo-1"}, ("7", {"updateRevision": "demo-1"}), 2, id="stored"
        ),
    ],
)
async def test_fields_dropped_by_an_older_crd_are_sent_once(
    bench: _Bench, stored: dict[str, Any], then: tuple[str, dict[str, Any]], writes: int
) -> None:
    cluster: Any = bench.cluster
    cluster.answers["status demo"] = {**_object("demo", resourceVersion="7"), "status": stored}
    applier = Applier(
        cluster, bench, WriteHooks(bench._put, bench._applied, bench._refused, bench.taken.append)
    )
    first = Status(replace(SET, resource_version="6"), {"replicas": 1, "updateRevision": "demo-1"})
    version, patch = then
    for status in (first, Status(replace(SET, resource_version=version), patch)):
        await applier.apply(Plan(statuses=(status,)))
    assert bench.diary == ["status demo"] * writes


@pytest.mark.parametrize(
    ("stored", "is_other"),
    [
        pytest.param({"replicas": 2, "updateRevision": "demo-1"}, False, id="the observed version"),
        pytest.param({"replicas": 2}, True, id="cleared by another client"),
        pytest.param({"updateRevision": "demo-1"}, False, id="not stored by the server"),
    ],
)
@pytest.mark.parametrize("is_remembered", [False, True], ids=["status only", "with a record"])
async def test_a_status_that_another_client_changed_needs_a_further_pass(
    bench: _Bench, stored: dict[str, Any], is_other: bool, is_remembered: bool
) -> None:
    bench.cluster.answers["status demo"] = {**_object("demo", resourceVersion="7"), "status": stored}
    status = Status(SET, {"replicas": 2}, before={"replicas": 1, "updateRevision": "demo-1"})
    memory = Merge(SET, {"status": {"replicas": 2}}, why="because", subresource="status")
    outcome = await bench.run(*([(memory,)] if is_remembered else []), statuses=(status,))
    assert (outcome.errors, outcome.overtaken) == ([], is_other)
    assert bench.diary == ["status demo"] and bench.put[0]["status"] == stored


class _Statuses:
    """A recorder of statuses in the diary."""

    def __init__(self, diary: list[str]) -> None:
        self._diary = diary

    def record_sent(self, target: Reference, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        self._diary.append(f"expect {target.name} {patch['status']}")
        return {"left": "by us"}

    def record_stored(self, stored: Mapping[str, Any], before: Any, patch: Mapping[str, Any]) -> None:
        self._diary.append(f"written {stored['status']} by {patch} over {before}")


async def test_every_status_write_is_recorded_before_it_is_sent_and_before_its_event() -> None:
    cluster: Any = _Cluster()
    bench, diary = _Bench(cluster), cluster.diary
    statuses = _Statuses(diary)
    applier = Applier(cluster, bench, WriteHooks(lambda obj: diary.append("put"), statuses=statuses))
    memory = Merge(SET, {"status": {"a": "b"}}, why="because", subresource="status")
    await applier.apply(Plan(((memory,),)))
    await applier.apply(Plan(statuses=(Status(SET, {"replicas": 1}, before={"replicas": 2}),)))
    assert diary[:2] == ["expect demo {'a': 'b'}", "status demo"]
    assert diary[2:4] == ["written {'a': 'b'} by {'a': 'b'} over {'left': 'by us'}", "put"]
    assert diary[4:6] == ["expect demo {'replicas': 1}", "status demo"]
    assert diary[6:] == ["written {'replicas': 1} by {'replicas': 1} over {'replicas': 2}", "put"]


@pytest.mark.parametrize("fails", [True, False])
async def test_a_status_for_failures_is_not_written_without_one(bench: _Bench, fails: bool) -> None:
    if fails:
        bench.cluster.failures["a"] = ApiError(500, "InternalError", "m")
    await bench.run((_create("a"),), statuses=(replace(STATUS, only_after_failure=True),))
    assert bench.diary == ["create a", *(["status demo", "tell: status"] if fails else ["tell: created a"])]


async def test_deletions_are_recorded_until_the_plan_has_ended(bench: _Bench) -> None:
    bench.cluster.slow = {"a": 5}
    running = asyncio.create_task(bench.run((_create("a"), _delete("b")), (_delete("c"),)))
    await asyncio.sleep(0)
    assert bench.going == {"u-b", "u-c"}
    await running
    assert bench.going == set()

    cut_off = asyncio.create_task(bench.run((_create("a"), _delete("b"))))
    await asyncio.sleep(0)
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off
    assert bench.going == set()


REMEMBER = Merge(SET, {"status": {"a": "b"}}, why="because", subresource="status", announce=(_event("it"),))


async def test_a_record_is_written_before_the_next_action(bench: _Bench) -> None:
    outcome = await bench.run((REMEMBER, _delete("a")))
    assert outcome.errors == []
    assert bench.diary == ["status demo", "tell: it", "delete Foreground a", "tell: deleted a"]
    assert bench.put[0]["status"] == {"a": "b"}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Conflict(409, "Conflict", "it is another one"), id="another set of the name"),
        pytest.param(NotFound(404, "NotFound", "gone"), id="deleted"),
        pytest.param(Unreachable("no"), id="no answer"),
        pytest.param(NotLeading("no"), id="no Lease"),
    ],
)
async def test_without_its_record_the_next_action_is_not_run(bench: _Bench, failure: ClusterError) -> None:
    bench.cluster.failures = {"demo": failure}
    outcome = await bench.run((REMEMBER, _delete("a")))
    assert outcome.errors == [failure]
    assert bench.diary == ["status demo"]


async def test_an_exception_stops_neither_the_status_nor_other_sequences(bench: _Bench) -> None:
    bench.cluster.failures["a"] = KeyError("a bug of ours")
    bench.cluster.slow = {"x": 20}
    with pytest.raises(KeyError, match="a bug of ours"):
        await bench.run((_create("a"),), (_create("x"), _create("y")), statuses=(STATUS,))
    assert bench.diary[-2:] == ["status demo", "tell: status"]
    assert "tell: created y" in bench.diary


async def test_events_without_a_write_are_announced_too(bench: _Bench) -> None:
    await bench.run(announce=(_event("one"), _event("two")))
    assert bench.diary == ["tell: one", "tell: two"]


@pytest.mark.parametrize(
    ("failure", "is_error"),
    [
        pytest.param(NotFound(404, "NotFound", "gone"), False, id="set-deleted"),
        pytest.param(Conflict(409, "Conflict", "another UID"), True, id="conflict"),
        pytest.param(Unreachable("refused"), True, id="unreachable"),
        pytest.param(NotLeading("not now"), True, id="not-leading"),
    ],
)
async def test_a_status_that_cannot_be_written(bench: _Bench, failure: ClusterError, is_error: bool) -> None:
    bench.cluster.failures["demo"] = failure
    second = Status(_reference("other"), {})
    outcome = await bench.run(statuses=(STATUS, second))
    assert outcome.errors == ([failure] if is_error else [])
    assert bench.diary == ["status demo", "status other"], "there is no event about a failed write"


FAILURE = _event("Failed to create x")


def _terminating() -> ApiError:
    causes = [{"reason": "NamespaceTerminating"}]
    return api_error(403, {"reason": "Forbidden", "message": "m", "details": {"causes": causes}}, "m", None)


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [
        pytest.param(Invalid(422, "Invalid", "m"), True, id="invalid"),
        pytest.param(Forbidden(403, "Forbidden", "m"), True, id="forbidden"),
        pytest.param(ApiError(400, "BadRequest", "m"), True, id="bad-request"),
        pytest.param(ApiError(413, "RequestEntityTooLarge", "m"), True, id="too-large"),
        pytest.param(_terminating(), False, id="namespace-terminating"),
        pytest.param(Forbidden(403, "Forbidden", "cannot find RESTMapping for X"), False, id="CRD-too-old"),
        pytest.param(Conflict(409, "Conflict", "m"), False, id="conflict"),
        pytest.param(Gone(410, "Gone", "m"), True, id="deleted"),
        pytest.param(Throttled(429, "TooManyRequests", "m"), False, id="429"),
        pytest.param(ApiError(500, "InternalError", "m"), False, id="500"),
        pytest.param(Throttled(503, "ServiceUnavailable", "m"), False, id="503"),
        pytest.param(Unreachable("m"), False, id="unreachable"),
        pytest.param(NotLeading("m"), False, id="not-leading"),
        pytest.param(NotFound(404, "NotFound", "m"), False, id="namespace-deleted"),
        pytest.param(Conflict(409, "Conflict", "m denied the request"), True, id="webhook-with-409"),
        pytest.param(ApiError(500, "InternalError", "m failed calling webhook"), True, id="webhook-is-down"),
        pytest.param(Throttled(429, "TooManyRequests", "m denied request"), True, id="policy-with-429"),
    ],
)
@pytest.mark.parametrize("kind", [_create, _apply], ids=["create", "apply"])
async def test_rejections_by_the_server_are_reported_to_users(
    bench: _Bench, kind: Any, error: ClusterError, is_reported: bool
) -> None:
    bench.cluster.failures["x"] = error
    action = kind("x", failure=FAILURE)
    outcome = await bench.run((action,))
    assert outcome.errors == [error]
    assert bench.refused == ([(action, error)] if is_reported else [])
    events = [line for line in bench.diary if line.startswith("tell")]
    assert events == ([f"tell: Failed to create x: {error.message}"] if is_reported else [])


async def test_rejections_of_any_verb_are_recorded_for_the_status(bench: _Bench) -> None:
    bench.cluster.failures = {name: Invalid(422, "Invalid", "m") for name in ("a", "b", "c", "d")}
    bench.cluster.answers["get d"] = _object("d", owner="", uid="u-d", resourceVersion="7")
    del bench.cluster.failures["d"]
    bench.cluster.failures["merge d"] = Invalid(422, "Invalid", "m")
    adoption = SetOwner(_reference("d"), {"uid": "u-set"}, "because")
    refused = (_create("a"), _delete("b"), Merge(_reference("c"), {}, why="because"), adoption)
    outcome = await bench.run(*((action,) for action in refused))
    assert len(outcome.errors) == 4 and bench.done == []
    assert [action for action in refused if action not in [recorded for recorded, _ in bench.refused]] == []
    assert not [line for line in bench.diary if line.startswith("tell")]
    bench.cluster.failures.clear()
    bench.refused.clear()
    await bench.run(*((action,) for action in refused))
    assert [action for action in refused if action not in bench.done] == [] == bench.refused


@pytest.mark.parametrize("action", [_delete("x"), _create("x")], ids=["delete", "create"])
@pytest.mark.parametrize(
    "error",
    [
        NotFound(404, "NotFound", "webhook w denied the request: no such ticket"),
        AlreadyExists(409, "AlreadyExists", "webhook w denied the request: there is one"),
    ],
    ids=["404", "409"],
)
async def test_a_webhook_may_reject_with_the_status_of_a_missing_or_existing_object(
    bench: _Bench, action: Any, error: ApiError
) -> None:
    bench.cluster.answers["get x"] = _object("x", uid="u-x")
    bench.cluster.failures = {"delete Foreground x": error, "create x": error}
    outcome = await bench.run((action,))
    assert outcome.errors == [error] and bench.refused == [(action, error)]
    assert bench.gone == bench.done == bench.taken == []


async def test_a_rejected_status_of_another_object_is_reported_on_the_owner(bench: _Bench) -> None:
    bench.cluster.failures["status scaler"] = error = NotFound(404, "NotFound", "w denied the request")
    status = Status(_reference("scaler"), {"replicas": 1})
    outcome = await bench.run(statuses=(status,))
    assert outcome.errors == [error] and bench.diary == ["status scaler"]
    ((refused, _),) = bench.refused
    assert isinstance(refused, Merge)
    assert (refused.target, refused.subresource) == (status.target, "status")
    bench.cluster.failures.clear()
    await bench.run(statuses=(status,))
    assert bench.done == [refused]


async def test_a_rejected_status_is_not_reported_in_a_condition(bench: _Bench) -> None:
    bench.cluster.failures["status demo"] = Invalid(422, "Invalid", "m")
    await bench.run(statuses=(STATUS,))
    message = "tell: cannot update the status of LeaderWorkerSet demo: m"
    assert bench.diary == ["status demo", message]
    bench.diary.clear()
    memory = Merge(SET, {"status": {"rollout": {"partition": 1}}}, why="because", subresource="status")
    await bench.run((memory, _delete("d")))
    assert bench.diary == ["status demo", message] and bench.refused == []
    bench.cluster.failures["status demo"] = Conflict(409, "Conflict", "m")
    bench.diary.clear()
    await bench.run(statuses=(STATUS,))
    assert bench.diary == ["status demo"]


@pytest.mark.parametrize("uid", ["", "u-seen"])
async def test_an_apply_is_forced_only_on_the_object_that_was_seen(bench: _Bench, uid: str) -> None:
    action = _apply("a", uid=uid)
    bench.cluster.answers["force a" if uid else "apply a"] = stored = _object("a", uid="u-stored")
    await bench.run((action,))
    assert bench.diary[0] == ("force a" if uid else "apply a")
    assert bench.cluster.sent[0]["metadata"].get("uid", "") == uid
    assert "uid" not in action.intent["metadata"], "the plan is not changed"
    assert bench.put == [stored] and bench.applied == [(action, stored)]


async def test_a_failed_apply_is_not_recorded(bench: _Bench) -> None:
    bench.cluster.failures["a"] = Conflict(409, "Conflict", "m")
    await bench.run((_apply("a"),))
    assert bench.put == [] and bench.applied == []


async def test_responses_of_the_server_are_recorded(bench: _Bench) -> None:
    created, merged, written = _object("a", uid="u-1"), _object("b", uid="u-2"), _object("demo", uid="u-set")
    bench.cluster.answers = {"create a": created, "merge b": merged, "status demo": written}
    await bench.run((_create("a"), Merge(_reference("b"), {}, why="because")), statuses=(STATUS,))
    assert bench.put == [created, merged, written]


@pytest.mark.parametrize(
    ("existing", "is_done"),
    [
        pytest.param(_object("a", owner="u-set", uid="u-1"), True, id="same-controller"),
        pytest.param(_object("a", owner="u-other", uid="u-1"), False, id="another-controller"),
        pytest.param(_object("a", owner="", uid="u-1"), False, id="no-controller"),
    ],
)
async def test_creates_of_existing_objects(bench: _Bench, existing: dict[str, Any], is_done: bool) -> None:
    bench.cluster.failures["create a"] = error = AlreadyExists(409, "AlreadyExists", "there")
    bench.cluster.answers["get a"] = existing
    outcome = await bench.run((_create("a", failure=FAILURE), _create("b")))
    assert outcome.errors == ([] if is_done else [error])
    assert ("create b" in bench.diary) is is_done
    assert [line for line in bench.diary if line.startswith("tell")] == (
        ["tell: created a", "tell: created b"] if is_done else []
    ), "the next pass reports the clash"
    assert existing in bench.put, "the next plan must see the existing object"


def _revision(text: str, **metadata: Any) -> dict[str, Any]:
    obj = _object("r", kind="ControllerRevision", labels={"key": "k"}, **metadata)
    return {**obj, "apiVersion": "apps/v1", "data": Verbatim(text)}


def _stored_revision(text: str, **metadata: Any) -> dict[str, Any]:
    return {**_revision(text, uid="u-1", **metadata), "data": json.loads(text)}


@pytest.mark.parametrize(
    ("existing", "is_done"),
    [
        pytest.param(_stored_revision('{"b":2, "a":1}'), True, id="ours and equal"),
        pytest.param(_stored_revision('{"a":1,"b":3}'), False, id="ours with other data"),
        pytest.param({**_stored_revision("{}"), "data": None}, False, id="ours without data"),
        pytest.param(
            {**_stored_revision('{"a":1,"b":2}'), "metadata": _object("r", uid="u-1")["metadata"]},
            False,
            id="ours without its label",
        ),
        pytest.param(
            _stored_revision('{"a":1,"b":2}', deletionTimestamp="2026-01-01T00:00:00Z"),
            False,
            id="ours, terminating",
        ),
        pytest.param(
            _stored_revision('{"a":1,"b":2}')
            | {"metadata": _object("r", owner="u-other", labels={"key": "k"})["metadata"]},
            False,
            id="foreign with equal data",
        ),
    ],
)
async def test_already_exists_is_success_only_for_the_same_object(
    bench: _Bench, existing: dict[str, Any], is_done: bool
) -> None:
    """With any other object, the next writes would rely on something that was never recorded."""
    bench.cluster.failures["create r"] = AlreadyExists(409, "AlreadyExists", "there")
    bench.cluster.answers["get r"] = existing
    create = Create(_revision('{"a":1,"b":2}'), why="because")
    outcome = await bench.run((create, _create("next")))
    assert (outcome.errors == [], "create next" in bench.diary) == (is_done, is_done)
    assert existing in bench.put
    assert create not in [action for action, _ in bench.created], "another client may have changed it"
    assert bench.taken == ([] if is_done else [create])


async def test_an_intent_without_a_controller_never_accepts_an_existing_object(bench: _Bench) -> None:
    bench.cluster.failures["create a"] = error = AlreadyExists(409, "AlreadyExists", "there")
    bench.cluster.answers["get a"] = _object("a", owner="", uid="u-1")
    outcome = await bench.run((Create(_object("a", owner=""), why="because"),))
    assert outcome.errors == [error]


@pytest.mark.parametrize(
    "error",
    [NotFound(404, "NotFound", "gone"), Unreachable("refused")],
    ids=lambda error: type(error).__name__,
)
async def test_the_existing_object_cannot_be_read(bench: _Bench, error: ClusterError) -> None:
    bench.cluster.failures = {"create a": AlreadyExists(409, "AlreadyExists", "there"), "get a": error}
    outcome = await bench.run((_create("a", failure=FAILURE),))
    assert outcome.errors == [error] and bench.diary == ["create a", "get a"] and bench.put == []


async def test_an_object_that_does_not_exist_counts_as_deleted(bench: _Bench) -> None:
    """This may be the second attempt, after the answer to the first deletion was lost."""
    bench.cluster.failures["a"] = NotFound(404, "NotFound", "gone")
    outcome = await bench.run((_delete("a"), _create("b")))
    assert outcome.errors == [] and bench.put[0]["metadata"]["name"] == "b"
    assert bench.gone == [(_reference("a"), {})], "the outcome is unknown"
    assert bench.diary == ["delete Foreground a", "tell: deleted a", "create b", "tell: created b"]


@pytest.mark.parametrize(
    ("answer", "is_gone"),
    [
        pytest.param({"kind": "Status", "status": "Success"}, True, id="at once"),
        pytest.param(
            _object("a", kind="Pod", deletionTimestamp="x", deletionGracePeriodSeconds=0), True, id="a pod"
        ),
        pytest.param(
            _object("a", deletionTimestamp="x", finalizers=["f"]), False, id="waiting for a finalizer"
        ),
        pytest.param(
            _object("a", kind="Pod", deletionTimestamp="x", deletionGracePeriodSeconds=30),
            False,
            id="waiting for its kubelet",
        ),
    ],
)
async def test_objects_that_a_deletion_removed_are_reported_at_once_with_the_answer(
    bench: _Bench, answer: dict[str, Any], is_gone: bool
) -> None:
    bench.cluster.answers["delete Foreground a"] = answer
    await bench.run((_delete("a"),))
    assert bench.gone == ([(_reference("a"), answer)] if is_gone else [])
    assert bench.put == ([] if is_gone else [answer])


ANOTHER_UID = Conflict(409, "Conflict", "another UID")


async def test_an_object_that_has_changed_is_not_deleted_if_its_version_counts(bench: _Bench) -> None:
    """A pending pod may have been assigned to a node."""
    delete = replace(_delete("a"), version="7")
    bench.cluster.failures = {"delete Foreground at version 7 a": Conflict(409, "Conflict", "version")}
    bench.cluster.answers["get a"] = now = _object("a", uid=delete.target.uid, resourceVersion="8")
    outcome = await bench.run((delete, _create("b")))
    assert (outcome.errors, outcome.overtaken) == ([], True)
    assert bench.diary == ["delete Foreground at version 7 a", "get a"], "no action and no event follow"
    assert bench.put == [now], "the next plan must see it"


@pytest.mark.parametrize(
    ("response", "put"),
    [
        pytest.param(NotFound(404, "NotFound", "gone"), [], id="deleted concurrently"),
        pytest.param(_object("a", uid="u-next"), [_object("a", uid="u-next")], id="recreated"),
    ],
)
async def test_a_recreated_object_counts_as_deleted(bench: _Bench, response: Any, put: Any) -> None:
    bench.cluster.failures = {"delete Foreground a": ANOTHER_UID}
    if isinstance(response, Exception):
        bench.cluster.failures["get a"] = response
    else:
        bench.cluster.answers["get a"] = response
    outcome = await bench.run((_delete("a"), _create("b")))
    assert outcome.errors == [] and bench.put[:-1] == put, "the next plan must see the new object"
    assert bench.diary == ["delete Foreground a", "get a", "tell: deleted a", "create b", "tell: created b"]


@pytest.mark.parametrize(
    ("response", "is_told_by_the_read"),
    [
        pytest.param(_object("a", uid="u-a"), False, id="same object"),
        pytest.param(Unreachable("refused"), True, id="unknown"),
    ],
)
async def test_a_conflict_does_not_mean_that_the_object_is_deleted(
    bench: _Bench, response: Any, is_told_by_the_read: bool
) -> None:
    """A 409 may come from a webhook or a proxy, so a deletion that did not happen is retried."""
    bench.cluster.failures = {"delete Foreground a": ANOTHER_UID}
    if isinstance(response, ClusterError):
        bench.cluster.failures["get a"] = response
    else:
        bench.cluster.answers["get a"] = response
    outcome = await bench.run((_delete("a"), _create("b")))
    assert outcome.errors == [response if is_told_by_the_read else ANOTHER_UID]
    assert bench.diary == ["delete Foreground a", "get a"]


async def test_no_child_is_created_for_an_owner_that_is_deleted(bench: _Bench) -> None:
    """Two concurrent passes: one deletes a leader, the other creates workers for it."""
    workers = Create(_object("workers", owner="u-leader"), why="because", announce=(_event("created"),))
    outcome = await bench.run((_delete("leader"),), (workers, _apply("next")))
    assert bench.diary == ["delete Foreground leader", "tell: deleted leader"]
    assert outcome.errors == []


async def test_an_owner_is_deleted_after_its_children_are_created(bench: _Bench) -> None:
    bench.cluster.slow["workers"] = 5
    workers = Create(_object("workers", owner="u-leader"), why="because", announce=(_event("created"),))
    await bench.run((workers,), (_delete("leader"),))
    assert bench.diary == [
        "create workers",
        "tell: created",
        "delete Foreground leader",
        "tell: deleted leader",
    ]


async def test_children_are_created_after_a_failed_deletion_of_the_owner(bench: _Bench) -> None:
    bench.cluster.failures["leader"] = Unreachable("no answer")
    workers = Create(_object("workers", owner="u-leader"), why="because")
    await bench.run((_delete("leader"),), (workers,))
    assert bench.diary == ["delete Foreground leader", "create workers"]


async def test_a_deletion_that_fails(bench: _Bench) -> None:
    bench.cluster.failures["a"] = error = Throttled(429, "TooManyRequests", "a disruption budget", 10.0)
    outcome = await bench.run((_delete("a"), _create("b")))
    assert outcome.errors == [error] and bench.diary == ["delete Foreground a"]


async def test_deletions_in_a_row_of_one_kind_are_sent_at_once(bench: _Bench) -> None:
    """Sent one by one, the last ones might come after the same deletions by another client."""
    bench.cluster.slow["a"] = 5
    workers = replace(_delete("c"), target=Reference("apps/v1", "StatefulSet", "ns", "c", "u-c"))
    await bench.run((_delete("a"), _delete("b"), workers, _create("d")))
    assert bench.diary == [
        *("delete Foreground a", "delete Foreground b", "tell: deleted b", "tell: deleted a"),
        *("delete Foreground c", "tell: deleted c", "create d", "tell: created d"),
    ]


async def test_only_successful_deletions_are_counted(bench: _Bench) -> None:
    bench.cluster.failures["b"] = ApiError(500, "", "x")
    tallies = {name: Tally("Fleet", name, "lost") for name in "abc"}
    outcome = await bench.run(*((_delete(name, tallies=(tallies[name],)),) for name in "abc"))
    assert sorted(outcome.tallies, key=str) == [tallies["a"], tallies["c"]]


async def test_successful_force_deletions_are_counted(bench: _Bench) -> None:
    bench.cluster.failures["b"] = ApiError(500, "", "x")
    outcome = await bench.run(
        (_delete("a", grace_seconds=0),), (_delete("b", grace_seconds=0),), (_delete("c"),)
    )
    assert outcome.forced == 1 and "delete Foreground within 0 s a" in bench.diary


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("answer", "is_put"),
    [
        pytest.param({"kind": "Status", "status": "Success"}, False, id="deleted"),
        pytest.param(
            _object("a", kind="Pod", finalizers=["foregroundDeletion"], **GOING),
            True,
            id="waits-for-its-dependents",
        ),
        pytest.param(
            _object("a", kind="Pod", deletionGracePeriodSeconds=30, **GOING), True, id="waits-for-its-kubelet"
        ),
        pytest.param(
            _object("a", kind="Pod", deletionGracePeriodSeconds=0, **GOING), False, id="deleted-pod"
        ),
        pytest.param(_object("a", kind="Pod"), False, id="deleted-without-response"),
    ],
)
async def test_only_pending_deletions_are_recorded(
    bench: _Bench, answer: dict[str, Any], is_put: bool
) -> None:
    """For a deleted pod, the API server returns its last state, which no stream would ever remove."""
    bench.cluster.answers["delete Foreground a"] = answer
    await bench.run((_delete("a"),))
    assert bench.put == ([answer] if is_put else [])


@pytest.mark.parametrize(
    ("errors", "seconds"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([Unreachable("x")], 0.0, id="no-answer"),
        pytest.param([ApiError(500, "", "x")], 0.0, id="not-asked"),
        pytest.param(
            [Throttled(429, "", "x", 7.0), ApiError(500, "", "x", 3.0), Unreachable("x")], 7.0, id="longest"
        ),
    ],
)
def test_the_longest_retry_after_of_all_errors(errors: list[ClusterError], seconds: float) -> None:
    assert Outcome(errors).retry_after == seconds
