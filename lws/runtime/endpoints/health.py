"""Serve liveness and readiness probes over plain HTTP. /healthz and /readyz list the failed checks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from lws.runtime.endpoints.plain_server import PlainServer

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns one line that says what is wrong, or None."""


class HealthServer(PlainServer):
    """Serves the probes. endpoints: URL path → checks by name."""

    def __init__(self, address: str, endpoints: Mapping[str, Mapping[str, Check]]) -> None:
        application = web.Application()
        for path, checks in endpoints.items():
            application.router.add_get(path, _all(checks))
            # This check always passes: it shows that the process answers.
            for name, check in {path.strip("/"): _fine, **checks}.items():
                application.router.add_get(f"{path}/{name}", _all({name: check}))
        super().__init__(address, application)


def _fine() -> str | None:
    return None


def _all(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    logged: set[str] = set()

    async def respond(request: web.Request) -> web.Response:
        failures = {name: wrong for name, check in checks.items() if (wrong := check()) is not None}
        # Probes arrive every few seconds; log a failure only once.
        for name in failures.keys() - logged:
            log.warning("%s fails: %s: %s", request.path, name, failures[name])
        logged.clear()
        logged.update(failures)
        if not failures and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[-]{name} failed: {failures[name]}" if name in failures else f"[+]{name} ok" for name in checks
        ]
        verdict = "check failed" if failures else "check passed"
        text = "\n".join([*lines, f"{request.path.strip('/')} {verdict}", ""])
        return web.Response(status=500 if failures else 200, text=text)

    return respond
