"""How does a command say that it has changed a set? As kubectl does.

In: the set and what was done. Out: one line.
"""

from __future__ import annotations

from lws.actions import Object
from lws.cli.views.blocks import Text
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET


def changed(lws: Object, what: str, dry_run: bool = False) -> Text:
    """`leaderworkerset.leaderworkerset.x-k8s.io/demo paused`."""
    kind = f"{LEADER_WORKER_SET.singular}.{LEADER_WORKER_SET.group}"
    return Text(f"{kind}/{lws['metadata']['name']} {what}{' (server dry run)' if dry_run else ''}")
