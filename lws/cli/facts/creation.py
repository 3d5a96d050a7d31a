"""Predict what a manifest would create, without asking a cluster.

Out: the set as the API server and our webhook would store it, its objects, and the state from which a later
update would start; a `Refusal` for a set that they would reject.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from lws.cli.blocks import Text
from lws.cli.refusal import Refusal
from lws.disaggregatedset.admission import validation
from lws.kube.field_errors import FieldError, aggregate
from lws.kube.metadata import copied
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import errors_in
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.reasons import counted
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import DisaggregatedSet
from lws_api.leaderworkerset.v1 import LeaderWorkerSet
from lws_api.meta import KubeModel

_NO_UID = "-"


def as_stored(manifest: Object) -> dict[str, Any]:
    """The set with all defaults. Its UID is a dash: no cluster has given it one."""
    lws = defaulted(manifest)
    default(lws)
    return _checked(lws, errors_in(lws), LeaderWorkerSet)


def disaggregated_as_stored(manifest: Object) -> dict[str, Any]:
    """The same of a DisaggregatedSet."""
    obj = defaulted(manifest)
    return _checked(obj, validation.errors_in(obj), DisaggregatedSet)


def _checked(obj: dict[str, Any], errors: Sequence[FieldError], model: type[KubeModel]) -> dict[str, Any]:
    if errors:
        raise Refusal(f"it would be refused: {aggregate(errors)}")
    try:
        model.model_validate(obj)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Refusal(f"it would be refused: {where}: {first['msg']}") from error
    return {**obj, "metadata": {"namespace": "default", **obj["metadata"], "uid": _NO_UID}}


def creation(lws: Object) -> Iterator[Text]:
    """What comes of a set that does not exist yet."""
    spec = SetSpec.of(lws)
    replicas, size = spec.replicas, spec.size
    pods = f"{counted(replicas)} of {size} pod{'' if size == 1 else 's'}"
    yield Text(f"new: {pods}, {replicas * size} in all, under key {record(lws).key}", "bold green")


def update_from_rest(lws: Object, now: datetime) -> RolloutState:
    """All groups are ready, and there is a new template."""
    state = assess(SetSnapshot(lws=copied(lws), now=now)).rollout
    groups = tuple(
        GroupState(index, ready=True, outdated=True, leader_ready=True, replaceable=True)
        for index in range(state.replicas)
    )
    stored = LeaderStatefulSet(
        replicas=state.replicas, partition=state.floor, last_replicas=state.replicas, is_current=False
    )
    return replace(state, groups=groups, statefulset=stored)
