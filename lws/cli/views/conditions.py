"""Show the conditions of a set, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lws.cli.blocks import Block, Table, Text, row
from lws.cli.facts.ages import age
from lws.kube import conditions
from lws.leaderworkerset.status.progress import STALLED
from lws.runtime.actions import Object

_STYLES = {"True": "green", "Unknown": "yellow"}


def conditions_of(obj: Object) -> Sequence[Mapping[str, Any]]:
    """As the status has them."""
    return (obj.get("status") or {}).get("conditions") or ()


def condition_blocks(obj: Object, now: datetime) -> Iterator[Block]:
    """A table below an empty line; nothing where there are none."""
    stored = conditions_of(obj)
    if not stored:
        return
    yield Text("")
    rows = tuple(
        row(
            condition["type"],
            Text(condition["status"], _STYLES.get(condition["status"], "")),
            condition.get("reason", ""),
            age(condition.get("lastTransitionTime"), now),
            condition.get("message", ""),
        )
        for condition in stored
    )
    yield Table(("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def is_stalled(obj: Object) -> bool:
    """Its status says that it has not come closer to what it asks for."""
    return conditions.is_true(conditions_of(obj), STALLED)


def last_word(waiting_for: str) -> Text:
    """What it waits for; nothing is waited for once a set is settled."""
    return Text(f"waits for {waiting_for}", "yellow") if waiting_for else Text("settled", "green")


def pace_line(obj: Object, last_progress: str, deadline: int | None, now: datetime) -> Iterator[Text]:
    """For how long nothing has moved. deadline: seconds, after which that counts as stalled."""
    if not last_progress:
        return
    limit = f"; stalls after {deadline} s without progress" if deadline is not None else ""
    yield Text(f"last progress {age(last_progress, now)} ago{limit}", "red" if is_stalled(obj) else "")
