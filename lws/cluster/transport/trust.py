"""Whom do we trust to be the API server, and with which certificate do we come? Read anew when files change.

In: the configuration of the kubernetes client, the files it names. Out: a TLS context for the next
connection.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from lws import timing

log = logging.getLogger(__name__)


_Stamp = tuple[str, int, int, int] | None


class Trust:
    """The TLS context of a configuration, as the kubernetes client makes it.

    Ours is only to notice: the client makes its context once, and a CA that the cluster rotates, or a
    certificate that is renewed, would stay unseen until the process is restarted.
    Raises OSError (ssl.SSLError) if the first one cannot be made.
    """

    def __init__(self, configuration: Configuration, clock: Callable[[], float] = time.monotonic) -> None:
        self._configuration = configuration
        self._clock = clock
        self._stamps = self._look()
        self._looked_at = clock()
        self._context: ssl.SSLContext = RESTClientObject(configuration).ssl_context

    @property
    def context(self) -> ssl.SSLContext:
        """For a connection that is made now. Files that cannot be used leave the former one in place."""
        now = self._clock()
        if now < self._looked_at + timing.TRUST_SECONDS and self._names_as_before():
            return self._context
        self._looked_at = now
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = RESTClientObject(self._configuration).ssl_context
                log.info("certificates for the way to the API server have changed and were read anew")
            except (OSError, ValueError) as error:
                # They may be half written: the next write changes the stamps again.
                log.warning("certificates for the way to the API server cannot be used: %s", error)
        return self._context

    def _files(self) -> tuple[str | None, ...]:
        configuration = self._configuration
        return configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file

    def _names_as_before(self) -> bool:
        return self._files() == tuple(stamp and stamp[0] for stamp in self._stamps)

    def _look(self) -> tuple[_Stamp, ...]:
        return tuple(None if path is None else _stamp(path) for path in self._files())


def _stamp(path: str) -> _Stamp:
    """What is another one for other content: volumes of Kubernetes exchange a link, others write the file."""
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, status.st_ino, status.st_mtime_ns, status.st_size
