"""test/conformance.yaml lists the whole API, names only tests that exist, and agrees with the page."""

from __future__ import annotations

import ast
from pathlib import Path

from test.unit.docs.inventory import inventory
from tools.conformance.__main__ import PAGE, TABLE, missing_tests, page_of, proofs_of, read_table

ROOT = Path(__file__).parents[3]
# Texts that only a running controller composes; their words must still be in the code.
COMPUTED = {
    "events": {"AllGroupsReady", "FailedDelete"},
    "disaggregatedset_conditions": {"Available", "Progressing", "ReplicaFailure", "Stalled"},
    "disaggregatedset_events": {
        "BrokenRevision",
        "FailedCreate",
        "FailedDelete",
        "FailedUpdate",
        "NameClash",
        "Stalled",
        "UnreadableSpec",
    },
}
SOURCES = {
    "events": "leaderworkerset/status/status.py runtime/refusals.py",
    "disaggregatedset_conditions": "leaderworkerset/status/status.py leaderworkerset/status/problems.py",
    "disaggregatedset_events": "leaderworkerset/left_alone.py leaderworkerset/events.py "
    "leaderworkerset/status/problems.py runtime/refusals.py history/plan.py",
}


def test_every_name_in_the_code_is_listed() -> None:
    table = read_table()
    for kind, names in inventory().items():
        listed, existing = [row.name for row in table[kind]], names | COMPUTED.get(kind, set())
        assert len(listed) == len(set(listed)), f"{kind}: listed twice"
        assert existing - set(listed) == set(), f"{kind}: add it to {TABLE.name}, then `make generate-api`"
        assert set(listed) - existing == set(), (
            f"{kind}: not in the code any more: remove it from {TABLE.name}"
        )


def test_computed_names_occur_in_the_code() -> None:
    for kind, words in COMPUTED.items():
        sources = [(ROOT / "lws" / path).read_text(encoding="utf-8") for path in SOURCES[kind].split()]
        nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
        assert words <= {node.value for node in nodes if isinstance(node, ast.Constant)}


def test_every_proof_is_an_existing_test() -> None:
    assert missing_tests(proofs_of(read_table())) == []


def test_the_page_matches_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of(read_table()), "run `make generate-api`"
