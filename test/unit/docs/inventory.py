"""List everything that users can refer to: fields, labels, variables, conditions, Events and metrics."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lws.kube import conditions
from lws.leaderworkerset.group import tpu
from lws_api.crds import definitions
from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.leaderworkerset import placement, v1
from tools.deployment import REPOSITORY
from tools.series import series_of, served

# Fields with types of Kubernetes, whose contents are not part of our API.
_OPAQUE = frozenset({"leaderTemplate", "workerTemplate", "volumeClaimTemplates", "conditions", "scheduling"})
# The fields of a role's spec are listed with LeaderWorkerSets.
_ROLE_SPEC = "spec.roles.spec"
_OF_DISAGGREGATED_SETS = REPOSITORY / "lws" / "disaggregatedset"
# The position of the reason or condition type among the arguments of a call.
_REASONS = {"Announce": 1, "_event": 1, "_warning": 1, "group_event": 1, "Problem": 0}
_TYPES = {"Condition": 0}


def inventory() -> Mapping[str, frozenset[str]]:
    """Return the names of each kind, with the kinds of test/conformance.yaml."""
    names = (series.name for series in series_of(served()))
    metrics = frozenset(name for name in names if name.startswith("lws_disaggregatedset"))
    in_sets, in_others = _trees(is_disaggregated=True), _trees(is_disaggregated=False)
    return {
        "fields": _fields(v1.KIND),
        "labels": _constants(v1, "_LABEL"),
        "annotations": _constants(v1, "_ANNOTATION") | _constants(placement, "_ANNOTATION"),
        "environment": _constants(v1, "_ENV") | _constants(tpu, "_ENV"),
        "conditions": strings_passed_to(in_others, _TYPES),
        "events": strings_passed_to(in_others, _REASONS) | {reason for _, reason in conditions.KNOWN},
        "disaggregatedset_fields": _fields(disaggregated.KIND),
        "scaler_fields": _fields(disaggregated.SCALER_KIND),
        "disaggregatedset_labels": _constants(disaggregated, "_LABEL"),
        "disaggregatedset_annotations": _constants(disaggregated, "_ANNOTATION"),
        "disaggregatedset_conditions": strings_passed_to(in_sets, _TYPES),
        "disaggregatedset_events": strings_passed_to(in_sets, _REASONS),
        "disaggregatedset_metrics": metrics,
    }


def _fields(kind: str) -> frozenset[str]:
    schema = definitions()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return frozenset(path for part in ("spec", "status") for path in _paths(schema[part], part))


def _trees(*, is_disaggregated: bool) -> list[ast.Module]:
    files = sorted((REPOSITORY / "lws").rglob("*.py"))
    chosen = (path for path in files if path.is_relative_to(_OF_DISAGGREGATED_SETS) == is_disaggregated)
    # Parsing all other files would take ten times as long, and they contribute nothing.
    calls = tuple(f"{name}(" for name in (*_REASONS, *_TYPES))
    texts = (path.read_text("utf-8") for path in chosen)
    return [ast.parse(text) for text in texts if any(call in text for call in calls)]


def strings_passed_to(trees: Sequence[ast.Module], positions: Mapping[str, int]) -> frozenset[str]:
    """Return the strings that are passed at the given positions of calls.

    places: for each called name, the position of the argument. A variable stands for every string that one of
    the modules assigns to it.
    """
    assigned: dict[str, list[ast.expr]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
    strings: set[str] = set()
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in positions:
            position = positions[call.func.id]
            arguments = [
                *call.args[position : position + 1],
                *(keyword.value for keyword in call.keywords if keyword.arg == "reason"),
            ]
            strings.update(text for argument in arguments for text in _texts(argument, assigned))
    return frozenset(strings)


def _texts(node: ast.expr, assigned: Mapping[str, Sequence[ast.expr]]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, assigned)
        yield from _texts(node.orelse, assigned)
    elif isinstance(node, ast.Name):
        # Resolve one step only: chains of names are rare, and cycles are possible.
        for value in assigned.get(node.id, ()):
            yield from _texts(value, {})


def _paths(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    name = prefix.rpartition(".")[2]
    inner = (schema if "properties" in schema else schema.get("items", {})).get("properties", {})
    if not inner or name in _OPAQUE or prefix == _ROLE_SPEC:
        yield prefix
        return
    for field, subschema in inner.items():
        yield from _paths(subschema, f"{prefix}.{field}")


def _constants(module: object, ending: str) -> frozenset[str]:
    return frozenset(value for name, value in vars(module).items() if name.endswith(ending))
