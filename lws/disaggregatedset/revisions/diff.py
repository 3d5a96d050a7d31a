"""Describe what changed between two target states of a DisaggregatedSet, one line for each change."""

from __future__ import annotations

from lws.disaggregatedset.revisions.record import RolesRecord
from lws.leaderworkerset.revisions import history
from lws.runtime.actions import Object


def describe(old: RolesRecord, new: RolesRecord) -> list[str]:
    """Role by role, in the order of the newer state: `role decode worker template container main image: a:1 →
    a:2`. Only what a pod depends on: the order of roles is no change.
    """
    lines = [f"role {name} removed" for name in old.roles if name not in new.roles]
    for name, spec in new.roles.items():
        if name not in old.roles:
            lines.append(f"role {name} added")
        elif old.forms[name] != new.forms[name]:
            changes = history.describe(_template(old.roles[name]), _template(spec))
            lines += [f"role {name} {line}" for line in changes]
    return lines


def _template(spec: Object) -> history.Record:
    return history.Record({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")}, {})
