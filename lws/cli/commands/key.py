"""`lws key`: the revision key of a set, or of a manifest as the controller would compute it.

In: the name of a set, or a manifest. Out: keys and, with --data, the canonical bytes that keys are hashes of.
"""

from __future__ import annotations

from typing import BinaryIO

import click

from lws.cli.arguments.options import EXIT_CODES, cluster_options, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.facts.manifests import sets_in, title_of
from lws.cli.kinds.registry import RESOURCES, kind_of, kind_of_object
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run


@click.command(short_help="Print the revision key of a set, or of each in a manifest.", epilog=EXIT_CODES)
@set_argument(required=False)
@click.option("-f", "--filename", type=click.File("rb"), help="Manifest (YAML or JSON), or - for stdin.")
@click.option("--data", is_flag=True, help="Also print the canonical bytes.")
@cluster_options
def key(name: NamedSet | None, filename: BinaryIO | None, data: bool, target: Target) -> int:
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
    for obj in sets_in(filename, RESOURCES):
        has_sets = True
        kind = kind_of_object(obj)
        computed, text = kind.key_and_text(kind.as_stored(obj))
        _print(obj["metadata"]["name"], computed, text if data else None)
    if not has_sets:
        kinds = " and no ".join(
            f"{resource.kind} of {resource.group}/{resource.version}" for resource in RESOURCES
        )
        raise Refusal(f"{title_of(filename)} holds no {kinds}")
    return 0


async def _of_set(session: Session, name: NamedSet, data: bool) -> int:
    kind = kind_of(name)
    obj = await kind.find(session, name)
    _print(name, await kind.key(session, obj), kind.key_and_text(obj)[1] if data else None)
    return 0


def _print(name: str, computed: str, text: str | None) -> None:
    click.echo(f"{name}\t{computed}")
    if text is not None:
        # Bytes, because the terminal may speak another encoding than the hash does.
        click.echo(text.encode())
