"""Tests that keys equal upstream's.

`go_keys.json` was made with upstream's types and Go's encoder: `named` holds cases with their keys, `random`
the digests of the texts of a hundred random cases each.
"""

from __future__ import annotations

import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lws.disaggregatedset.names import hashed_text, key_of
from test.unit.lws.disaggregatedset.templates import random_roles

VECTORS = json.loads((Path(__file__).parent / "go_keys.json").read_bytes())
CASES_PER_DIGEST = 100


def specs(roles: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return role name → spec, with everything in it that the key must not depend on."""
    more = {"replicas": 7, "startupPolicy": "LeaderReady", "networkConfig": {"subdomainPolicy": "Shared"}}
    return {role["name"]: {**more, "leaderWorkerTemplate": role["template"]} for role in roles}


@pytest.mark.parametrize("case", VECTORS["named"], ids=lambda case: case["name"])
def test_the_key_matches_upstream(case: dict[str, Any]) -> None:
    assert key_of(specs(case["roles"])) == case["key"]


def test_the_hashed_text_matches_upstream() -> None:
    (case,) = [candidate for candidate in VECTORS["named"] if candidate["name"] == "one container"]
    role = (
        '"template":{"workerTemplate":{"metadata":{},"spec":{"containers":[{"name":"worker","image":'
        '"nginx:1.29.3","resources":{}}]}},"size":1,"restartPolicy":"RecreateGroupOnPodRestart"}}'
    )
    assert hashed_text(specs(case["roles"])) == f'[{{"name":"prefill",{role},{{"name":"decode",{role}]'
    assert case["key"] == "980bcb92"


def test_the_hashed_texts_of_random_templates_match_upstream() -> None:
    chance = random.Random(14)
    for digest in VECTORS["random"]:
        texts = [hashed_text(specs(random_roles(chance))) for _ in range(CASES_PER_DIGEST)]
        assert sha256("\n".join(texts).encode()).hexdigest().startswith(digest)


def test_every_collision_count_gives_another_key() -> None:
    roles = specs(VECTORS["named"][1]["roles"])
    keys = [key_of(roles, probe) for probe in range(20)]
    assert len(set(keys)) == 20
    assert keys[0] == VECTORS["named"][1]["key"]
