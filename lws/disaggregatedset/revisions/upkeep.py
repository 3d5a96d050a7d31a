"""Adopt, restore and prune the other revisions of a DisaggregatedSet."""

from __future__ import annotations

from collections.abc import Collection

from lws.disaggregatedset.revisions.record import labels_for
from lws.disaggregatedset.revisions.target import Facts, TargetRevision, carried_keys
from lws.history import plan_adoption, prunable
from lws.runtime.actions import Action, Delete, Merge, Plan


def plan_upkeep(facts: Facts, target: TargetRevision) -> Plan:
    """Orphans come along with the target revision; labels that were edited are put back: without its name
    label no stream shows a revision.
    """
    actions: list[Action] = []
    for each in facts.revisions:
        wanted = labels_for(facts.obj, each.key)
        labels = {key: value for key, value in wanted.items() if each.labels.get(key) != value}
        if labels and each.key and not each.is_orphan and not each.is_leaving:
            why = f"edited: {', '.join(sorted(labels))}"
            actions.append(Merge(each.reference, {"metadata": {"labels": labels}}, why=why))
    if facts.owner.is_alive:
        orphans = (each for each in facts.revisions if each.is_orphan and each.name != target.name)
        actions += plan_adoption(orphans, facts.owner.reference)
    return Plan(tuple((each,) for each in actions))


def plan_pruning(facts: Facts, target: TargetRevision, limit: int, remembered: Collection[str] = ()) -> Plan:
    """Old revisions beyond the limit, whether a rollout is done, under way, paused or stuck.

    remembered: keys of children with which a rollout began that goes on: those that are lost come back.
    """
    live = carried_keys(facts) | {target.key, *remembered}
    status = facts.obj.get("status") or {}
    of_rollout = [] if live == {target.key} else [status.get("currentRevision"), status.get("updateRevision")]
    spare = prunable(facts.revisions, live, limit, {target.name, *map(str, of_rollout)})
    return Plan(
        tuple(
            (Delete(each.reference, "Background", why=f"no pod is of revision {each.number} any more"),)
            for each in spare
        )
    )
