"""test.bench.scale: the arithmetic of the model of large fleets, and the page that it generates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test.bench.scale import _UNMEASURED, BEGIN, END, MEASURED, PAGE, Load, load_of, model_of, write_page


def measured(sets: int, memory: int) -> dict[str, Any]:
    """Return results in which every set costs the same, and its creation half as much as its rollout."""

    def phase(factor: int) -> dict[str, Any]:
        streams = {
            "pods": {"events": 30 * factor * sets, "bytes": 90_000 * factor * sets},
            "services": {"events": 2 * factor * sets, "bytes": 2_000 * factor * sets},
        }
        cpu = [0.02 * factor * sets, 0.005 * factor * sets]
        return {"streams": streams, "writes": 4 * factor * sets, "events": factor * sets, "cpu": cpu}

    return {
        "shape": f"{sets}x2x5",
        "sets": sets,
        "pods": 10 * sets,
        "commit": "0" * 40,
        "machine": {"cores": 2, "python": "3.11", "others": 0.01},
        "created": {"list_bytes": 50_000 * sets, "pss": [memory + 5_000_000, memory]},
        "phases": {"create": phase(1), "rollout": phase(2)},
        "look": {"cpu": 0.006 * sets},
    }


SMALL, LARGE = measured(20, 61_000_000), measured(80, 64_000_000)


def test_costs_of_one_set() -> None:
    model = model_of(SMALL, LARGE)
    assert (model.create.stream_events, model.rollout.stream_events) == (32, 64)
    assert (model.create.stream_bytes, model.rollout.stream_bytes) == (92_000, 184_000)
    assert (model.create.writes, model.rollout.writes, model.rollout.events) == (4, 8, 2)
    assert (model.rollout.acting, model.rollout.following) == pytest.approx((0.04, 0.01))
    assert (model.memory, model.base_memory) == (50_000, 60_000_000)
    assert (model.look, model.pods) == pytest.approx((0.006, 10))


def test_the_load_of_many_sets_within_a_time() -> None:
    load = load_of(model_of(SMALL, LARGE), sets=10_000, seconds=1000.0)
    # The sum of the rollout and of one pass over everything every ten minutes.
    assert (load.acting, load.following) == pytest.approx((0.4 + 0.1, 0.1))


@pytest.mark.parametrize(
    ("acting", "following", "managers"),
    [
        pytest.param(0.4, 0.1, 1, id="one"),
        pytest.param(0.6, 0.1, 2, id="two"),
        pytest.param(2.1, 0.1, 5, id="several"),
        pytest.param(9.0, 0.6, None, id="following-alone"),
    ],
)
def test_the_number_of_managers(acting: float, following: float, managers: int | None) -> None:
    load = Load(acting, following)
    assert load.managers == managers
    assert load.core(1) == pytest.approx(acting)


def test_the_page_is_written_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, tmp_path)
    assert page.read_text() == f"before\n{BEGIN}\n\n{_UNMEASURED}\n\n{END}\nafter\n"
    for result in (SMALL, LARGE):
        (tmp_path / f"{result['shape']}.json").write_text(json.dumps(result))
    write_page(page, tmp_path)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\nMeasured: 80 × 2 × 5") and text.endswith(f"{END}\nafter\n")
    assert "| 10,000 | 10 minutes | 0.767 | 0.167 | 2 | 0.467 |" in text and "old" not in text


def test_the_committed_page_matches_the_measurements(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write_page(page, MEASURED)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
