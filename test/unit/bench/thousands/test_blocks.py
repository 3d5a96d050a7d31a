"""test.bench.thousands.blocks: which block a stack sample of a manager counts to."""

from __future__ import annotations

import pytest

from test.bench.thousands.blocks import DECODING, OTHER, shares


@pytest.mark.parametrize(
    ("stack", "block"),
    [
        ("runners.run;informer.run;informer._watch;responses.decoded;responses._json", DECODING),
        ("runners.run;informer.run;informer._store_event;store.put", "streams: trim, store, route"),
        ("runners.run;loop._work;loop._reconcile;apply.apply;connection._request", "writes"),
        ("runners.run;loop._work;loop._reconcile;observer.observe_group", "passes over groups"),
        ("runners.run;loop._work;plan.plan;plan._plan_group;plan._plan_workers", "passes over groups"),
        ("runners.run;loop._work;plan.plan;assessment.assess", "passes over sets: deciding"),
        ("runners.run;ssl.read", "TLS"),
        ("runners.run;client_proto.data_received", OTHER),
    ],
)
def test_a_stack_belongs_to_the_first_block_with_one_of_its_frames(stack: str, block: str) -> None:
    assert shares({stack: 3}) == {block: 1.0}


def test_imports_and_the_profiler_are_excluded() -> None:
    stacks = {"a.b;<frozen importlib._bootstrap>._load": 5, "runners.run;loop_lag._answer": 1}
    assert shares({**stacks, "x.y": 3, "ssl.read": 1}) == {OTHER: 0.75, "TLS": 0.25}
