"""`lws doctor`: what is wrong with an installation, where, and what to do about it.

In: which cluster. Out: a table of findings; exit code 1 if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import click

from lws import __version__
from lws.cli.arguments.options import cluster_options, output_option
from lws.cli.blocks import Block, Table, Text, described, row
from lws.cli.facts.doctor import rights
from lws.cli.facts.doctor.checks import (
    CHECKS,
    STUCK,
    Finding,
    Result,
    Unchecked,
    check_stuck,
    manager_version,
)
from lws.cli.facts.doctor.installation import Denied, Installation, Reader, look
from lws.cli.kinds.kind import SetKind
from lws.cli.kinds.registry import KINDS
from lws.cli.refusal import Refusal, Unreadable
from lws.cli.session import Session, Target, run, worded
from lws.cli.views.screen import dump, show
from lws.runtime.actions import Object
from lws.runtime.client.resources import Resource
from lws.runtime.errors import ClusterError, Forbidden

_AT_ONCE = 8


@click.command(
    short_help="Find what is wrong with the installation, and say what to do.",
    epilog="Exit codes: 0 nothing found, 1 findings or an error, 2 wrong usage. What could not be checked is "
    "listed, and is no finding.",
)
@output_option("json", "yaml")
@cluster_options
def doctor(output: str | None, target: Target) -> int:
    """Check definitions, manager, webhooks, certificate, Lease, permissions, versions and sets.

    -n names the namespace of the manager, which is looked for otherwise, whatever the context says. Sets of
    all namespaces are checked. Nothing is changed.
    """
    return run(target, lambda session: _examine(session, output))


async def _examine(session: Session, output: str | None) -> int:
    reader = Reader(session.cluster)
    facts = await look(reader, session.explicit_namespace, session.now)
    results: list[Result] = [result for check in CHECKS for result in check(facts)]
    results += rights.check(facts, await rights.ask(reader, facts))
    for kind in KINDS:
        results += await _stuck(session, reader, kind)
    if output:
        dump(doctor_data(facts, results), output)
    else:
        show(doctor_blocks(facts, results))
    return 0 if all(isinstance(result, Unchecked) for result in results) else 1


async def _stuck(session: Session, reader: Reader, kind: SetKind) -> list[Result]:
    resource = kind.resource
    sets = await reader.listed(
        Resource(f"{resource.group}/{resource.version}", resource.kind, resource.plural)
    )
    if isinstance(sets, Denied):
        return [Unchecked(STUCK, f"{resource.kind}s that are stuck", sets.permission)]
    slots = asyncio.Semaphore(_AT_ONCE)
    judged = await asyncio.gather(*(_judged(session, kind, obj, slots) for obj in sets))
    return [result for results in judged for result in results]


async def _judged(session: Session, kind: SetKind, obj: Object, slots: asyncio.Semaphore) -> list[Result]:
    metadata = obj["metadata"]
    where = f"{obj['kind']} {metadata['namespace']}/{metadata['name']}"
    within = Session(session.cluster, metadata["namespace"])
    try:
        async with slots:
            standing = await kind.standing(within, obj)
    except Forbidden as error:
        return [Unchecked(STUCK, where, worded(error).message)]
    except Unreadable as error:
        do = f"correct it: kubectl edit -n {metadata['namespace']} {obj['kind'].lower()} {metadata['name']}"
        return [Finding(STUCK, where, f"is left alone, because its spec cannot be read: {error.fault}", do)]
    except (ClusterError, Refusal) as error:
        return [Unchecked(STUCK, where, error.message)]
    return list(check_stuck(obj["kind"], standing.data(), standing.obj, session.now))


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
    findings = [result for result in results if isinstance(result, Finding)]
    unchecked = [result for result in results if isinstance(result, Unchecked)]
    if findings:
        yield Text("")
        rows = tuple(
            row(finding.check, finding.where, Text(finding.what, "red"), finding.do) for finding in findings
        )
        yield Table(("CHECK", "WHERE", "FINDING", "WHAT TO DO"), rows)
    if unchecked:
        yield Text("")
        yield Table(
            ("CHECK", "NOT CHECKED", "NEEDS"),
            tuple(row(result.check, Text(result.what, "yellow"), result.needs) for result in unchecked),
        )
    yield Text("")
    yield _last_word(len(findings), len(unchecked))


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
            {"check": result.check, "where": result.where, "what": result.what, "do": result.do}
            for result in results
            if isinstance(result, Finding)
        ],
        "unchecked": [
            {"check": result.check, "what": result.what, "needs": result.needs}
            for result in results
            if isinstance(result, Unchecked)
        ],
    }


def _holders(facts: Installation) -> str:
    leases = [lease for lease in facts.leases.values() if lease and not isinstance(lease, Denied)]
    specs = [lease.get("spec") or {} for lease in leases]
    return ", ".join(str(spec.get("holderIdentity") or "<none>") for spec in specs) or "<unknown>"


def _last_word(findings: int, unchecked: int) -> Text:
    rest = f"; {unchecked} could not be checked" if unchecked else ""
    if findings:
        return Text(f"{findings} finding{'s' if findings > 1 else ''}{rest}", "red")
    return Text(f"nothing found{rest}", "yellow" if unchecked else "green")
