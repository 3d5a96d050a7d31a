"""Show what an apply would do to a set, and the steps of its rollout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lws.cli.blocks import Block, Table, Text, row
from lws.cli.facts.creation import creation
from lws.cli.facts.impact import Impact, impact_lines
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.simulation import SimulatedStep, Simulation
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object


@dataclass(frozen=True)
class SetPlan:
    """What an apply would do to one set.

    lws: the set as it would be stored. action: `created`, `configured` or `unchanged`, as kubectl says it.
    effect: None for a set that is new. simulation: of its rollout, or of a later one of a new set; None if
    nobody asks for it.
    """

    lws: Object
    action: str
    effect: Impact | None
    simulation: Simulation | None


def plan_blocks(plan: SetPlan) -> Iterator[Block]:
    """What is shown below the headline."""
    yield from creation(plan.lws) if plan.effect is None else impact_lines(plan.effect)
    if plan.simulation is None:
        return
    if plan.effect is None:
        yield Text("a later update of all its groups:")
    yield from steps_blocks(plan.simulation)


def plan_data(plan: SetPlan) -> dict[str, Any]:
    """The same as data."""
    metadata, replicas = plan.lws["metadata"], SetSpec.of(plan.lws).replicas
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "action": plan.action,
        "key": record(plan.lws).key if plan.effect is None else plan.effect.after.target.key,
        "replicas": replicas,
        **({"added": list(range(replicas))} if plan.effect is None else _effect_data(plan.effect)),
        **(steps_data(plan.simulation) if plan.simulation is not None else {}),
    }


def _effect_data(effect: Impact) -> dict[str, Any]:
    return {
        "added": list(effect.added),
        "removed": list(effect.removed),
        "restarts": list(effect.restarts),
        "restartsAnyway": list(effect.moving),
        "recreated": [{"index": index, "why": why} for index, why in sorted(effect.recreated.items())],
        "unknown": [{"index": index, "why": why} for index, why in sorted(effect.unknown.items())],
        "changes": list(effect.template),
        "changesAtOnce": list(effect.at_once),
        "leftAlone": effect.left_alone,
    }


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


def _row(number: int, step: SimulatedStep) -> tuple[Text, ...]:
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
