"""tools.apipage: the API reference matches the CRDs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import apipage


def test_the_page_is_up_to_date() -> None:
    assert apipage.main(["--check"]) == 0, "run `make generate-api`"


def test_a_page_that_is_not_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apipage, "PAGE", tmp_path / "api.md")
    apipage.PAGE.write_text("# API reference\n")
    assert apipage.main(["--check"]) == 1
    assert apipage.main([]) == 0
    assert apipage.main(["--check"]) == 0


def test_what_starts_a_rollout_is_marked() -> None:
    rows = apipage.page().splitlines()
    size, restarts = (
        next(row for row in rows if row.startswith(f"| `leaderWorkerTemplate.{name}`"))
        for name in ("size", "restartPolicy")
    )
    assert size.startswith("| `leaderWorkerTemplate.size` ↻ | int32 | `1` |")
    assert "↻" not in restarts
