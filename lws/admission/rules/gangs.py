"""Will groups that are to be placed as a whole be placed at all?

In: a set with values of the right types, and who places groups. Out: warnings about what that scheduler will
make of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.admission.errors import rendered
from lws.admission.fields import templates_of
from lws.group.gang.coscheduling import TIMEOUT_ANNOTATION, Coscheduling, timeout_seconds
from lws.group.gang.kubernetes import Kubernetes
from lws.group.gang.provider import GangProvider
from lws.kube.metadata import annotations_of
from lws.leaderworkerset import fields
from lws_api.leaderworkerset.placement import SHARED_TOPOLOGY_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, StartupPolicy

_ALONE = "so that the scheduler is asked for the leader alone, and workers may find no place"


def gang_warnings(raw: Mapping[str, Any], gang: GangProvider) -> list[str]:
    """What is legal and not placed as a whole."""
    found = []
    if fields.STARTUP_POLICY.of(raw) == StartupPolicy.LEADER_READY:
        found.append(
            f"spec.startupPolicy: LeaderReady: workers do not exist before their leader is ready, {_ALONE}; "
            f"use LeaderCreated"
        )
    for annotation in (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION):
        if topology := annotations_of(raw).get(annotation):
            found.append(
                f"metadata.annotations.{annotation}: {rendered(topology)}: workers do not exist before their "
                f"leader has a node, {_ALONE} beside it"
            )
    if isinstance(gang, Coscheduling):
        found += _timeout_warnings(annotations_of(raw).get(TIMEOUT_ANNOTATION))
    if isinstance(gang, Kubernetes):
        found += _own_group_warnings(raw)
    return found + _scheduler_warnings(raw)


def _timeout_warnings(value: object) -> list[str]:
    if value is None or timeout_seconds(value) is not None:
        return []
    path = f"metadata.annotations.{TIMEOUT_ANNOTATION}: {rendered(value)}"
    return [f"{path} is not read: write a number of seconds above 0, such as '120'"]


def _own_group_warnings(raw: Mapping[str, Any]) -> list[str]:
    return [
        f"{where}.spec.schedulingGroup: these pods name a PodGroup of their own, the same for all groups of "
        f"the set: none is made for them; remove it to have groups placed as a whole"
        for where, template in templates_of(raw)
        if fields.value_at(template, ("spec", "schedulingGroup"))
    ]


def _scheduler_warnings(raw: Mapping[str, Any]) -> list[str]:
    """Each scheduler sees its own pods only, and waits for the others."""
    named = {path: fields.value_at(each, ("spec", "schedulerName")) for path, each in templates_of(raw)}
    if len({rendered(name or "default-scheduler") for name in named.values()}) < 2:
        return []
    told = " and ".join(f"{where} {rendered(name or 'default-scheduler')}" for where, name in named.items())
    return [f"spec.schedulerName: {told}: no scheduler sees the whole group, which is never placed; name one"]
