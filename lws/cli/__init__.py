"""The `lws` command: parse arguments, call the code that decides, and print the result."""

from __future__ import annotations

from lws.cli.main import main

__all__ = ["main"]
