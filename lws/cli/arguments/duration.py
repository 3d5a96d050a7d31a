"""How long may it take? As kubectl takes it, `30s` or `1m30s`; a bare number is seconds.

In: one word. Out: seconds; a usage error for anything else.
"""

from __future__ import annotations

from typing import Any

import click

from lws_api.config.duration import parse


class Duration(click.ParamType[float]):
    """A duration above zero."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = parse(text if text[-1:].isalpha() else f"{text}s").total_seconds()
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            self.fail(f"{text!r} is not a duration above zero such as 30s or 1m30s", param, ctx)
        return seconds
