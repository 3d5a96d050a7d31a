"""Send requests to a Service ten times a second, and record the answers that were lost."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from test.harness.repeating import repeated

_EVERY_SECONDS = 0.1
_ANSWER_SECONDS = 30.0


@dataclass
class Asked:
    """What a client was answered."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """Seconds that an answer took at most."""

    def once(self, address: str) -> None:
        """Ask by a connection of its own, as many clients do."""
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=_ANSWER_SECONDS) as answer:
                self.answers.append(json.load(answer))
        except (http.client.HTTPException, OSError, ValueError) as error:
            self.lost.append(f"{time.strftime('%X')} after {len(self.answers)}: {error!r}")
        self.slowest = max(self.slowest, time.monotonic() - began)


@contextmanager
def asking(address: str) -> Iterator[Asked]:
    """A client asks ten times a second meanwhile."""
    asked = Asked()
    with repeated(lambda: asked.once(address), _EVERY_SECONDS):
        yield asked
