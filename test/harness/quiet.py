"""Wait until the manager stops writing to a namespace, according to the audit log."""

from __future__ import annotations

from test.harness.audit import AuditLog, Request
from test.harness.waiting import eventually
from test.harness.world import World

# The Lease is renewed every second here. Delayed status writes and Events wait for 5 s at most.
_RENEWALS = 8


def writes(world: World, audit: AuditLog) -> list[Request]:
    """Return the requests with which the manager has written objects of the test, Events included."""
    return [
        request for request in audit.requests() if request.is_write and request.namespace == world.namespace
    ]


def let_time_pass(audit: AuditLog) -> None:
    """Wait until delayed writes are done. The manager's own renewals of its Lease measure the time."""
    eventually("time has passed", lambda: _renewals(audit) >= _RENEWALS)


def wait_until_quiet(world: World, audit: AuditLog) -> None:
    """Wait until the manager has written nothing for a while, and mark the audit log."""
    eventually("the last write is done", lambda: _is_quiet(world, audit))
    audit.mark()


def _is_quiet(world: World, audit: AuditLog) -> bool:
    audit.mark()
    let_time_pass(audit)
    return not writes(world, audit)


def _renewals(audit: AuditLog) -> int:
    return sum(request.is_write and request.resource == "leases" for request in audit.requests())
