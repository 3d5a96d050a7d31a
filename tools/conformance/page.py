"""Answers: how does the table of conformance read?

In: its rows. Out: docs/reference/compatibility.md. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.conformance.table import DIFFERENCES, Row, Table, proofs_of

_INTRODUCTION = """\
# Compatibility with the original controller

Everything by which manifests, clients and pods know
[kubernetes-sigs/lws](https://github.com/kubernetes-sigs/lws), what this controller has on top, and every
deliberate difference with its reason. For those who move manifests, clients or dashboards.

`test/conformance.yaml` names one test for each line. `make conformance` runs these {tests} tests and, when
all have passed, writes this page. A unit test holds that table against the API and the code.
"""
_TITLES = {
    "fields": ("Fields", "Field"),
    "labels": ("Labels", "Label"),
    "annotations": ("Annotations", "Annotation"),
    "environment": ("Environment", "Variable"),
    "conditions": ("Conditions", "Type"),
    "events": ("Events", "Reason"),
}
_DISAGGREGATED = {
    "disaggregatedset_fields": ("Fields of DisaggregatedSets", "Field"),
    "scaler_fields": ("Fields of DisaggregatedSetRoleScalers", "Field"),
    "disaggregatedset_labels": ("Labels of DisaggregatedSets", "Label"),
    "disaggregatedset_annotations": ("Annotations of DisaggregatedSets", "Annotation"),
    "disaggregatedset_conditions": ("Conditions of DisaggregatedSets", "Type"),
    "disaggregatedset_events": ("Events of DisaggregatedSets", "Reason"),
    "disaggregatedset_metrics": ("Metrics of DisaggregatedSets", "Metric"),
}
_DIFFERENCES = "Deliberate differences"
_OF_DISAGGREGATED = f"disaggregatedset_{DIFFERENCES}"


def page_of(table: Table) -> str:
    """The whole page. What the original lacks comes after what it has."""
    parts = [_INTRODUCTION.format(tests=len(proofs_of(table)))]
    parts += _sections(table, _TITLES)
    parts.append(_differences(_DIFFERENCES, table.get(DIFFERENCES, ())))
    parts += _sections(table, _DISAGGREGATED)
    if of_disaggregated := table.get(_OF_DISAGGREGATED, ()):
        parts.append(_differences(f"{_DIFFERENCES} of DisaggregatedSets", of_disaggregated))
    return "\n".join(parts)


def _sections(table: Table, titles: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for kind, (heading, column) in titles.items():
        rows = table.get(kind, ())
        if known := [row for row in rows if not row.is_added]:
            yield _section(f"## {heading}", column, known)
        if added := [row for row in rows if row.is_added]:
            yield _section(f"### {heading} that the original lacks", column, added)


def _section(heading: str, column: str, rows: Sequence[Row]) -> str:
    if any(row.what for row in rows):
        cells = [(column, "Meaning"), *((f"`{row.name}`", row.what) for row in rows)]
        return "\n".join(_lines(heading, cells))
    return "\n".join((heading, "", ", ".join(f"`{row.name}`" for row in rows), ""))


def _differences(heading: str, rows: Iterable[Row]) -> str:
    return "\n".join((f"## {heading}", "", *(f"- {row.what}" for row in rows), ""))


def _lines(heading: str, cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield heading
    yield ""
    for number, row in enumerate(cells):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield f"| {' | '.join('---' for _ in row)} |"
    yield ""
