"""Warn about, or refuse, a change of a LeaderWorkerSet that is a role of a DisaggregatedSet."""

from __future__ import annotations

from lws.cli.refusal import Refusal
from lws.kube.metadata import controller_of
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET, KIND

_TYPE = DISAGGREGATED_SET.singular


def caution(obj: Object, command: str) -> str:
    """What to know before groups of a role are rolled by themselves; empty for a set of its own. command: the
    one that does the same to all roles.

    A DisaggregatedSet leaves the templates of its LeaderWorkerSets as they are: one that it put back would
    restart groups once more.
    """
    owner = _owner(obj)
    if not owner:
        return ""
    return (
        f"{obj['metadata']['name']} is a role of DisaggregatedSet {owner}: only this role is rolled, not in "
        f"step with the others, and no revision of {owner} records it, so its next one comes without. "
        f"`lws {command} {_TYPE}/{owner}` takes all roles along"
    )


def check_pause(obj: Object) -> None:
    """Raises Refusal for a role: its DisaggregatedSet rolls it by making another LeaderWorkerSet, which a
    pause of this one does not stop.
    """
    if owner := _owner(obj):
        raise Refusal(
            f"{obj['metadata']['name']} is a role of DisaggregatedSet {owner}, whose rollouts make other "
            f"LeaderWorkerSets: pausing this one would stop none of them. Use `lws pause {_TYPE}/{owner}`"
        )


def _owner(obj: Object) -> str:
    controller = controller_of(obj)
    is_role = controller is not None and controller.get("kind") == KIND
    return str(controller["name"]) if controller is not None and is_role else ""
