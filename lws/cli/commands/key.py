"""`lws key`: the revision key of a manifest, as the controller would compute it.

In: a manifest of LeaderWorkerSets or DisaggregatedSets. Out: their keys and, with --data, the canonical bytes
that the keys are hashes of.
"""

from __future__ import annotations

from typing import Any, TextIO

import click

from lws.cli.arguments.options import EXIT_CODES
from lws.cli.facts.creation import as_stored, disaggregated_as_stored
from lws.cli.facts.manifests import sets_in
from lws.cli.refusal import Refusal
from lws.disaggregatedset.key import hashed_text, key_of
from lws.disaggregatedset.revisions import record as disaggregated
from lws.leaderworkerset.revisions.history import record
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.leaderworkerset.v1 import API_VERSION, KIND, LEADER_WORKER_SET


@click.command(short_help="Print the revision key of each set in a manifest.", epilog=EXIT_CODES)
@click.option(
    "-f", "--filename", type=click.File("r"), required=True, help="Manifest (YAML or JSON), or - for stdin."
)
@click.option("--data", is_flag=True, help="Also print the canonical bytes.")
def key(filename: TextIO, data: bool) -> None:
    """Print the revision key (template hash) of each LeaderWorkerSet and DisaggregatedSet in a manifest.

    Defaults are filled in first, as the API server and the webhook would.
    """
    found = False
    for obj in sets_in(filename, (LEADER_WORKER_SET, DISAGGREGATED_SET)):
        found = True
        computed, text = _key_and_text(obj)
        click.echo(f"{obj['metadata']['name']}\t{computed}")
        if data:
            # Bytes, because the terminal may speak another encoding than the hash does.
            click.echo(text.encode())
    if not found:
        raise Refusal(f"{filename.name} holds no {KIND} of {API_VERSION}, and no {DISAGGREGATED_SET.kind}")


def _key_and_text(obj: dict[str, Any]) -> tuple[str, str]:
    if obj["kind"] == KIND:
        recorded = record(as_stored(obj))
        return recorded.key, recorded.text
    roles = disaggregated.record(disaggregated_as_stored(obj)).roles
    return key_of(roles), hashed_text(roles)
