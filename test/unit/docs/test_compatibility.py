"""docs/compatibility.md lists the whole API of the original controller, and tests that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from lws.group import tpu
from lws_api.leaderworkerset import v1

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
# What the original controller does not have: docs/revisions.md and the definition describe it.
ADDED = {
    "spec.revisionHistoryLimit",
    "spec.progressDeadlineSeconds",
    "spec.maxGroupRestarts",
    "spec.podDisruptionBudget.maxUnavailableGroups",
    "spec.rolloutStrategy.paused",
    "status.currentRevision",
    "status.updateRevision",
    "status.collisionCount",
    "status.lastProgressTime",
    "status.groups.counts",
    "status.groups.unsettled.name",
    "status.groups.unsettled.reason",
    "status.groups.unsettled.state",
    "status.rollout.revision",
    "status.rollout.partition",
    "status.members",
    "status.restarts",
}
ADDED_ANNOTATIONS = {
    "leaderworkerset.sigs.k8s.io/restart-exempt-containers",
    "leaderworkerset.sigs.k8s.io/restart-exempt-sidecars",
}
OPAQUE = {"leaderTemplate", "workerTemplate", "volumeClaimTemplates", "conditions"}


def listed(heading: str) -> list[str]:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def paths_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        alias = field.alias or name
        choices = (field.annotation, *getattr(field.annotation, "__args__", ()))
        inner = next(
            (each for each in choices if isinstance(each, type) and issubclass(each, BaseModel)), None
        )
        if inner is not None and alias not in OPAQUE:
            yield from paths_of(inner, f"{prefix}{alias}.")
        else:
            yield f"{prefix}{alias}"


def constants(ending: str) -> set[str]:
    return {value for name, value in vars(v1).items() if name.endswith(ending)}


@cache
def proofs_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_field_is_listed() -> None:
    spec = set(paths_of(v1.LeaderWorkerSetSpec, "spec."))
    status = set(paths_of(v1.LeaderWorkerSetStatus, "status."))
    assert set(listed("Fields")) == (spec | status) - ADDED


def test_every_label_annotation_and_variable_is_listed() -> None:
    assert set(listed("Labels")) == constants("_LABEL")
    assert set(listed("Annotations")) == constants("_ANNOTATION") - ADDED_ANNOTATIONS
    of_tpus = {value for name, value in vars(tpu).items() if name.endswith("_ENV")}
    assert set(listed("Environment")) == constants("_ENV") | of_tpus


def test_every_proof_is_a_test_that_there_is() -> None:
    proofs = re.findall(r"`(test/[^`]+\.py)::(test_\w+)`", TEXT)
    tables = TEXT.count("\n| --- |")
    rows = sum(line.startswith("| ") for line in TEXT.splitlines()) - 2 * tables
    assert len(proofs) == rows, "a row without a proof"
    for path, name in proofs:
        assert name in proofs_in(path), f"{path}::{name}"
