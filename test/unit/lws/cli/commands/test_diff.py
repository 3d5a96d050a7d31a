"""lws.cli.commands.diff: exit codes as those of `kubectl diff`."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.commands import diff as module
from lws.cli.facts import lookup
from lws.cli.facts.lookup import SetObjects
from lws.cli.main import main
from lws.leaderworkerset.snapshot import SetSnapshot
from test.unit.builders import make_set
from test.unit.lws.cli.histories import revision_of, snapshot_of

A, B = make_set(image="app:1"), make_set(image="app:2")
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(session: Any, name: str) -> SetObjects:
        snapshot: SetSnapshot = snapshot_of(B, HISTORY)
        return SetObjects(B, snapshot, {}, {}, tuple(HISTORY))

    def run(target: Any, action: Any) -> Any:
        coroutine = action(None)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("nothing is waited for")

    monkeypatch.setattr(lookup, "find_history", find)
    monkeypatch.setattr(module, "run", run)


@pytest.mark.parametrize(
    ("arguments", "code", "last"),
    [
        ([], 1, "worker template container main image: app:1 → app:2"),
        (["--from", "1", "--to", "1"], 0, "no difference that a pod depends on"),
        (["--to", "7"], 2, "error: set demo has no revision 7: there is 1, 2"),
        (["--to", "x"], 2, "'x' is not a valid integer range. (see lws diff --help)"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["diff", "lws/demo", *arguments])
    out, err = capsys.readouterr()
    assert end.value.code == code
    assert (out + err).splitlines()[-1].endswith(last)
