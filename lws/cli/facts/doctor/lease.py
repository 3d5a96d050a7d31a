"""Does somebody hold the Lease, and renew it?

In: an installation. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from lws import timing
from lws.actions import Object
from lws.cli.facts.ages import age
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation
from lws.cli.facts.doctor.reading import Denied
from lws.kube.conditions import moment_of

CHECK = "lease"
_DO = "see that a manager runs, and what its log says of the Lease"


def check(facts: Installation) -> Iterator[Result]:
    """Each of the Leases; with shards those of shards too."""
    for name, lease in facts.leases.items():
        where = f"Lease {facts.namespace}/{name}"
        if isinstance(lease, Denied):
            yield Unchecked(CHECK, where, lease.permission)
        elif lease is None:
            yield Finding(CHECK, where, "is missing: no manager has ever acted", _DO)
        else:
            yield from _of_one(facts, where, lease)


def _of_one(facts: Installation, where: str, lease: Object) -> Iterator[Finding]:
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder:
        yield Finding(CHECK, where, "is held by nobody: nothing acts on sets", _DO)
        return
    moment = moment_of(renewed)
    late = 0.0 if moment is None else (facts.now - moment - timing.LEASE_LATE).total_seconds()
    if moment is None or late > int(spec.get("leaseDurationSeconds") or 0):
        when = f"has not renewed it for {age(renewed, facts.now)}" if moment else "has never renewed it"
        what = f"its holder {holder} {when}: nothing acts on sets"
        yield Finding(
            CHECK, where, what, f"{_DO}; if both are well, compare this machine's clock with theirs"
        )
