"""How do the steps of a rollout read?

In: a simulation. Out: blocks to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lws.cli.blocks import Block, Table, Text, row
from lws.leaderworkerset.rollout.simulation import Simulation, Step


def steps_blocks(simulation: Simulation) -> Iterator[Block]:
    """One row per thing that the controller does."""
    if not simulation.steps:
        yield Text("no steps: everything is as the set asks")
        return
    yield Text("steps, if every new group gets ready:")
    columns = ("STEP", "READY", "UPDATED", "PARTITION", "REPLICAS", "WHAT")
    rows = tuple(_row(number, step) for number, step in enumerate(simulation.steps, start=1))
    yield Table(columns, rows)
    if simulation.waiting_for:
        yield Text(f"and then waits for {simulation.waiting_for}", "yellow")


def steps_data(simulation: Simulation) -> dict[str, Any]:
    """The same as data."""
    steps = [
        {
            "ready": sum(group.ready for group in step.groups),
            "updated": sum(group.updated for group in step.groups),
            "partition": step.rollout.partition,
            "replicas": step.rollout.replicas,
            "why": step.rollout.why,
        }
        for step in simulation.steps
    ]
    return {"steps": steps, "waitingFor": simulation.waiting_for}


def _row(number: int, step: Step) -> tuple[Text, ...]:
    return row(
        str(number),
        str(sum(group.ready for group in step.groups)),
        str(sum(group.updated for group in step.groups)),
        _moved(step.partition, step.rollout.partition),
        _moved(step.replicas, step.rollout.replicas),
        step.rollout.why,
    )


def _moved(before: int | None, after: int) -> str:
    return str(after) if before is None or before == after else f"{before} → {after}"
