"""Has the manager come to rest, and what has it written since?

In: a namespace, the audit log since its last mark. Out: writes of the manager.
"""

from __future__ import annotations

from test.harness.audit import AuditLog, Request
from test.harness.waiting import eventually
from test.harness.world import World

# The Lease is renewed every second here; status and Events that wait for company do so for 5 s at most.
_RENEWALS = 8


def writes(world: World, audit: AuditLog) -> list[Request]:
    """What the manager has written to the objects of the test, Events too."""
    return [each for each in audit.requests() if each.is_write and each.namespace == world.namespace]


def let_time_pass(audit: AuditLog) -> None:
    """Return when whatever was put off is done, by the clock of the manager itself."""
    eventually("time has passed", lambda: _renewals(audit) >= _RENEWALS)


def wait_until_quiet(world: World, audit: AuditLog) -> None:
    """Return when nothing was written for a while; the audit log is marked."""
    eventually("the last write is done", lambda: _is_quiet(world, audit))
    audit.mark()


def _is_quiet(world: World, audit: AuditLog) -> bool:
    audit.mark()
    let_time_pass(audit)
    return not writes(world, audit)


def _renewals(audit: AuditLog) -> int:
    return sum(each.is_write and each.resource == "leases" for each in audit.requests())
