"""Send requests to a Service ten times a second, and record the ones without an answer."""

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
class Client:
    """The answers to a client."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """The longest time until an answer, in seconds."""

    def once(self, address: str) -> None:
        """Send a request on a new connection, as many clients do."""
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=_ANSWER_SECONDS) as answer:
                self.answers.append(json.load(answer))
        except (http.client.HTTPException, OSError, ValueError) as error:
            self.lost.append(f"{time.strftime('%X')} after {len(self.answers)}: {error!r}")
        self.slowest = max(self.slowest, time.monotonic() - began)


@contextmanager
def running_client(address: str) -> Iterator[Client]:
    """Run a client that sends ten requests a second."""
    client = Client()
    with repeated(lambda: client.once(address), _EVERY_SECONDS):
        yield client
