"""Render the section of the report about what a group costs the control plane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from test.bench.bill.attribution import PURPOSES, costs
from test.bench.bill.measure import BACKGROUND, BARE, OURS, SERVED
from test.bench.bill.settings import DESCRIPTIONS, SETTINGS
from test.bench.shapes import parse

_UNMEASURED = "Not measured yet: `python -m test.bench.bill` writes it here."
_WAYS = (BACKGROUND, BARE, SERVED, OURS)
_API_SERVER = "kube-apiserver"
_PROGRAMS = (_API_SERVER, "kube-controller-manager", "etcd", "kube-scheduler")
# Kinds of requests with fewer than this for each group are not shown.
_FEWEST = 1.5
_COLLECTOR = "generic-garbage-collector"

Result = dict[str, Any]


def section(results: Sequence[Result]) -> str:
    """Return the section of the report: the largest bill with its baselines, and all settings."""
    complete = [result for result in results if BARE in result["bills"]]
    if not complete:
        return _UNMEASURED
    largest = max(complete, key=lambda result: int(result["groups"]))
    parts = [
        f"A rollout of {parse(largest['shape']).label}, for each group:",
        _table(
            ("", "s ÷ floor", "CPU ÷ floor", "requests", *(f"{name}, CPU ms" for name in _PROGRAMS)),
            _whole_rows(largest),
        ),
        "*CPU* is that of the whole control plane, the manager included. What the API server is asked for, "
        "and its CPU ms for it, for each group:",
        _table(("for", *_WAYS), _purpose_rows(largest)),
        f"Requests of which there are at least {_FEWEST:g} for each group:",
        _table(
            ("who", "what", *_WAYS),
            _request_rows(largest),
        ),
    ]
    tried = [result for result in results if result["setting"] in SETTINGS and BARE not in result["bills"]]
    if tried:
        parts += [
            f"Settings, on rollouts of {parse(tried[0]['shape']).label}, each on a cluster of its own:",
            _table(
                (
                    "settings",
                    "API server, CPU ms",
                    "controller manager",
                    "etcd",
                    "requests",
                    "of endpoints",
                    "of the garbage collector",
                ),
                _setting_rows(tried),
            ),
        ]
    return "\n\n".join([*parts, _machine(results)])


def _whole_rows(result: Result) -> Iterator[tuple[str, ...]]:
    groups, floor = result["groups"], result["bills"][BARE]
    for name in _WAYS:
        bill = result["bills"][name]
        ratios = (bill["seconds"] / floor["seconds"], sum(bill["cpu"].values()) / sum(floor["cpu"].values()))
        cpu = (f"{1000 * bill['cpu'][program] / groups:.0f}" for program in _PROGRAMS)
        yield name, *(f"{ratio:.2f}" for ratio in ratios), f"{_count(bill) / groups:.1f}", *cpu


def _purpose_rows(result: Result) -> Iterator[tuple[str, ...]]:
    costs_by_name = {name: costs(result["bills"][name], result["groups"], name == OURS) for name in _WAYS}
    for purpose in PURPOSES:
        costs_of_purpose = (by_purpose[purpose] for by_purpose in costs_by_name.values())
        yield purpose, *(f"{cost.requests:.1f}, {cost.cpu:.0f} ms" for cost in costs_of_purpose)


def _request_rows(result: Result) -> Iterator[tuple[str, ...]]:
    groups = result["groups"]
    counts = {name: _by_request(result["bills"][name]) for name in _WAYS}
    keys = {key for requests in counts.values() for key in requests}
    for key in sorted(keys, key=lambda key: (-counts[OURS].get(key, 0.0), key)):
        row = [requests.get(key, 0.0) / groups for requests in counts.values()]
        if max(row) >= _FEWEST:
            yield *key, *(f"{value:.1f}" for value in row)


def _setting_rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    order = list(SETTINGS)
    for result in sorted(results, key=lambda it: order.index(it["setting"])):
        bill, groups = result["bills"][OURS], result["groups"]
        naming = sum(count for (who, _), count in _by_request(bill).items() if who.startswith("endpoint"))
        collecting = sum(count for (who, _), count in _by_request(bill).items() if who == _COLLECTOR)
        yield (
            DESCRIPTIONS[result["setting"]],
            *(f"{1000 * bill['cpu'][program] / groups:.0f}" for program in _PROGRAMS[:3]),
            f"{_count(bill) / groups:.1f}",
            f"{naming / groups:.2f}",
            f"{collecting / groups:.1f}",
        )


def _by_request(bill: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    return {(who, request): count for who, request, count, _ in bill["requests"]}


def _count(bill: Mapping[str, Any]) -> float:
    return float(sum(count for _, _, count, _ in bill["requests"]))


def _machine(results: Sequence[Result]) -> str:
    others = [result["machine"]["others"] for result in results]
    commits = dict.fromkeys(result["commit"][:10] for result in results)
    return (
        f"Measured at commits {', '.join(commits)}, on 2 cores of which other work took "
        f"{min(others):g} to {max(others):g}. CPU is compared within one run."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
