"""Do two sets need the same name for an object?

In: an installation. Out: findings, from the rule by which the webhook refuses new sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lws.actions import Object
from lws.admission.rules.siblings import clash_errors
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation
from lws.cli.facts.doctor.reading import Denied
from lws.leaderworkerset.revisions.shape import spec_fault

CHECK = "clashes"


def check(facts: Installation) -> Iterator[Result]:
    """Sets that were stored before there was a webhook, or past it."""
    if isinstance(facts.sets, Denied):
        yield Unchecked(CHECK, "names that two sets need", facts.sets.permission)
        return
    by_namespace: dict[str, list[Object]] = defaultdict(list)
    for each in facts.sets:
        if not spec_fault(each):
            by_namespace[each["metadata"]["namespace"]].append(each)
    for namespace, sets in sorted(by_namespace.items()):
        # Each pair once: the rule looks both ways.
        for index, one in enumerate(sets):
            for error in clash_errors(one, None, sets[:index]):
                where = f"LeaderWorkerSet {namespace}/{one['metadata']['name']}"
                do = (
                    "delete one of the two, and create it under another name; with fewer groups both fit, too"
                )
                yield Finding(CHECK, where, str(error), do)
