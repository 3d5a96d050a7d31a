"""Which sets have not moved for long, and why?

In: how sets stand, as `lws status -o json` says it, and as they are stored. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lws import timing
from lws.actions import Object
from lws.cli.facts.ages import age
from lws.cli.facts.doctor.finding import Finding
from lws.kube.conditions import moment_of, timestamp

CHECK = "sets"


def check(kind: str, data: Mapping[str, Any], stored: Object, now: datetime) -> Iterator[Finding]:
    """One set. stored: as it was read. A set that is paused waits for its user, and is no finding."""
    if data["settled"] or data["paused"]:
        return
    since = data["lastProgress"] or _last_transition(stored) or stored["metadata"]["creationTimestamp"]
    moment = moment_of(since)
    is_silent = moment is None or now - moment > timing.STUCK_AFTER
    if not (is_silent or data["stalled"]):
        return
    waits = [each["why"] for each in data.get("groups") or data.get("leaderWorkerSets") or () if each["why"]]
    why = f"; {waits[0]}" if waits else ""
    yield Finding(
        CHECK,
        f"{kind} {data['namespace']}/{data['name']}",
        f"has not moved for {age(since, now)}: it waits for {data['waitingFor']}{why}",
        f"kubectl lws status -n {data['namespace']} {kind.lower()}/{data['name']}",
    )


def _last_transition(stored: Object) -> str:
    """When a condition last changed: a status of the original says no more of time. Empty if none has."""
    said = (stored.get("status") or {}).get("conditions") or ()
    moments = filter(None, (moment_of(each.get("lastTransitionTime")) for each in said))
    latest = max(moments, default=None)
    return timestamp(latest) if latest else ""
