"""tools.apipage: the API reference matches the CRDs."""

from __future__ import annotations

from pathlib import Path

from tools import apipage


def test_the_page_is_up_to_date() -> None:
    assert apipage.main(["--check"]) == 0, "run `make generate-api`"


def test_an_outdated_page_is_reported(tmp_path: Path) -> None:
    page = tmp_path / apipage.PAGE
    page.parent.mkdir(parents=True)
    page.write_text("# API reference\n")
    assert apipage.main(["--check"], tmp_path) == 1
    assert apipage.main([], tmp_path) == 0
    assert apipage.main(["--check"], tmp_path) == 0


def test_defaults_that_the_definition_does_not_store_are_shown_once() -> None:
    rows = apipage.page().splitlines()
    paused, deadline, protocol = (
        next(row for row in rows if row.startswith(f"| `{path}`"))
        for path in (
            "rolloutStrategy.paused",
            "rolloutStrategy.prewarm.deadlineSeconds",
            "leaderService.ports[].protocol",
        )
    )
    assert "| `false` |" in paused and "| `TCP` |" in protocol
    assert deadline.endswith("| `600` | Seconds after which the rollout continues in any case. |")


def test_fields_that_start_a_rollout_are_marked() -> None:
    rows = apipage.page().splitlines()
    size, restarts = (
        next(row for row in rows if row.startswith(f"| `leaderWorkerTemplate.{name}`"))
        for name in ("size", "restartPolicy")
    )
    assert size.startswith("| `leaderWorkerTemplate.size` ↻ | int32 | `1` |")
    assert "↻" not in restarts
