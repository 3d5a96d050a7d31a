"""The flow chart of docs/concepts/failures.md names Events of the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "concepts" / "failures.md").read_text(encoding="utf-8")


def test_the_events_that_the_flow_chart_names_exist() -> None:
    (chart,) = re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lws").rglob("*.py"))
    events = re.findall(r"Event (\w+)", chart)
    assert len(events) == 3 and [event for event in events if f'"{event}"' not in code] == []
