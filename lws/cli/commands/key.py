"""`lws key`: print the revision key of a set, or of a manifest as the controller would compute it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import click

from lws.cli.arguments import EXIT_CODES, cluster_options, set_argument
from lws.cli.histories import leaders_of, roles_history
from lws.cli.manifests import as_stored, sets_in, title_of
from lws.cli.session import ClusterOptions, Refusal, Session, run
from lws.cli.sets import RESOURCES, NamedSet, find
from lws.disaggregatedset.names import hashed_text, key_of
from lws.disaggregatedset.revisions import record as roles
from lws.disaggregatedset.target import target_revision
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.revisions.history import record
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.v1 import KIND


@click.command(short_help="Print the revision key of a set, or of each in a manifest.", epilog=EXIT_CODES)
@set_argument(required=False)
@click.option("-f", "--filename", type=click.File("rb"), help="Manifest (YAML or JSON), or - for stdin.")
@click.option("--data", is_flag=True, help="Also print the canonical bytes.")
@cluster_options
def key(name: NamedSet | None, filename: BinaryIO | None, data: bool, target: ClusterOptions) -> int:
    """Print the revision key (template hash) of a set, or of each LeaderWorkerSet and DisaggregatedSet in a
    manifest.

    Of a set, it is the key that the revision it asks for is recorded under. Of a manifest, it is computed
    without a cluster; defaults are filled in first, as the API server and the webhook would.
    """
    if (name is None) == (filename is None):
        raise click.UsageError("either NAME or '-f' / '--filename' is required")
    if name is not None:
        return run(target, lambda session: _of_set(session, name, data))
    assert filename is not None
    has_sets = False
    for obj in sets_in(filename):
        has_sets = True
        computed, text = _KEYS[obj["kind"]].computed(as_stored(obj))
        _print(obj["metadata"]["name"], computed, text if data else None)
    if not has_sets:
        kinds = " and no ".join(f"{resource.kind} of {resource.api_version}" for resource in RESOURCES)
        raise Refusal(f"{title_of(filename)} holds no {kinds}")
    return 0


async def _of_set(session: Session, name: NamedSet, data: bool) -> int:
    obj = await find(session, name)
    keys = _KEYS[obj["kind"]]
    _print(name, await keys.recorded(session, obj), keys.computed(obj)[1] if data else None)
    return 0


def _print(name: str, computed: str, text: str | None) -> None:
    click.echo(f"{name}\t{computed}")
    if text is not None:
        # Written as bytes, because the encoding of the terminal may differ from the one that is hashed.
        click.echo(text.encode())


@dataclass(frozen=True, slots=True)
class _Keys:
    """How to find a kind's keys: computed without a history, with the hashed text, or the target's."""

    computed: Callable[[Object], tuple[str, str]]
    recorded: Callable[[Session, Object], Awaitable[str]]


def _computed(lws: Object) -> tuple[str, str]:
    recorded = record(lws)
    return recorded.key, recorded.text


async def _recorded(session: Session, lws: Object) -> str:
    return assess((await leaders_of(session, lws)).snapshot).target.key


def _roles_computed(obj: Object) -> tuple[str, str]:
    parts = roles.record(obj).roles
    return key_of(parts), hashed_text(parts)


async def _roles_recorded(session: Session, obj: Object) -> str:
    return target_revision((await roles_history(session, obj)).snapshot).key


_KEYS: Mapping[str, _Keys] = {
    KIND: _Keys(_computed, _recorded),
    ROLES_KIND: _Keys(_roles_computed, _roles_recorded),
}
