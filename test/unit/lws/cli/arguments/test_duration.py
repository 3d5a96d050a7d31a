"""lws.cli.commands.status: `30s`."""

from __future__ import annotations

import click
import pytest

from lws.cli.commands.status import Duration


@pytest.mark.parametrize(
    ("word", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("0.5s", 0.5), ("30", 30), ("0.5", 0.5)]
)
def test_durations(word: str, seconds: float) -> None:
    assert Duration().convert(word, None, None) == seconds


@pytest.mark.parametrize("word", ["", "0", "0s", "-5", "-5s", "soon", "nan", "5 s", "1d"])
def test_what_is_none(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration above zero such as 30s"):
        Duration().convert(word, None, None)
