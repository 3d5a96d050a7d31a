"""How do findings read?

In: an installation, and what the checks say of it. Out: blocks to show, or data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lws import __version__
from lws.cli.blocks import Block, Table, Text, described, row
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation
from lws.cli.facts.doctor.reading import Denied
from lws.cli.facts.doctor.versions import manager_version


def doctor_blocks(facts: Installation, results: Sequence[Result]) -> Iterator[Block]:
    """What was looked at, what was found, what could not be checked."""
    yield from described(
        {
            "Namespace": facts.namespace,
            "Command": __version__,
            "Manager": manager_version(facts) or "<unknown>",
            "API server": facts.server,
            "Lease": _holders(facts),
        },
        {},
    )
    found = [each for each in results if isinstance(each, Finding)]
    unchecked = [each for each in results if isinstance(each, Unchecked)]
    if found:
        yield Text("")
        rows = tuple(row(each.check, each.where, Text(each.what, "red"), each.do) for each in found)
        yield Table(("CHECK", "WHERE", "FINDING", "WHAT TO DO"), rows)
    if unchecked:
        yield Text("")
        yield Table(
            ("CHECK", "NOT CHECKED", "NEEDS"),
            tuple(row(each.check, Text(each.what, "yellow"), each.needs) for each in unchecked),
        )
    yield Text("")
    yield _last_word(len(found), len(unchecked))


def doctor_data(facts: Installation, results: Sequence[Result]) -> dict[str, Any]:
    """The same as data."""
    return {
        "namespace": facts.namespace,
        "versions": {
            "command": __version__,
            "manager": manager_version(facts) or None,
            "apiServer": facts.server,
        },
        "findings": [
            {"check": each.check, "where": each.where, "what": each.what, "do": each.do}
            for each in results
            if isinstance(each, Finding)
        ],
        "unchecked": [
            {"check": each.check, "what": each.what, "needs": each.needs}
            for each in results
            if isinstance(each, Unchecked)
        ],
    }


def _holders(facts: Installation) -> str:
    known = [each for each in facts.leases.values() if each and not isinstance(each, Denied)]
    specs = [each.get("spec") or {} for each in known]
    return ", ".join(str(each.get("holderIdentity") or "<none>") for each in specs) or "<unknown>"


def _last_word(findings: int, unchecked: int) -> Text:
    rest = f"; {unchecked} could not be checked" if unchecked else ""
    if findings:
        return Text(f"{findings} finding{'s' if findings > 1 else ''}{rest}", "red")
    return Text(f"nothing found{rest}", "yellow" if unchecked else "green")
