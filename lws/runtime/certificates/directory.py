"""Serve the certificate in a directory that another tool, such as cert-manager, keeps up to date.

Each valid pair of `tls.crt` and `tls.key` is given to the server once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from lws import timing
from lws.runtime.certificates.serving_certificate import expiry, read, time_flaw

log = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int], ...]


class CertificateDirectory:
    """Supplies one server with the certificate in the files of a directory.

    install: a function that receives certificate and key (PEM). It raises ValueError, and keeps the former
    ones, if they cannot be used. on_read: a function that is called after each attempt to read changed files,
    with its success. clock: a function that returns the current time, timezone-aware.
    """

    def __init__(
        self,
        directory: Path,
        install: Callable[[bytes, bytes], None],
        on_read: Callable[[bool], None] = lambda is_good: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._certificate, self._key = directory / "tls.crt", directory / "tls.key"
        self._install = install
        self._on_read = on_read
        self._loaded: _Signature = ()
        self._complaint = ""
        self._clock = clock
        self._served: bytes | None = None
        self._expires: datetime | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a certificate is served that is valid now."""
        return self._served is not None and not time_flaw(read(self._served), self._clock())

    @property
    def expires(self) -> datetime | None:
        """The time at which the served certificate expires; None while there is none."""
        return self._expires

    async def run(self) -> None:
        """Check the files every few seconds, indefinitely."""
        while True:
            self.check()
            await asyncio.sleep(timing.CERTIFICATE_FILES_SECONDS)

    def check(self) -> None:
        """Install changed files. Missing or invalid files are logged once."""
        try:
            signature = tuple(_signature(path) for path in (self._certificate, self._key))
            if signature == self._loaded:
                return
            certificate, key = self._certificate.read_bytes(), self._key.read_bytes()
            expires = expiry(certificate)
            self._install(certificate, key)
        except (OSError, ValueError) as error:
            self._on_read(False)
            complaint = f"no certificate from {self._certificate.parent}: {error}"
            if complaint != self._complaint:
                log.warning("%s; retrying every %.0f s", complaint, timing.CERTIFICATE_FILES_SECONDS)
            self._complaint = complaint
            return
        self._loaded, self._served, self._expires, self._complaint = signature, certificate, expires, ""
        self._on_read(True)
        log.info("webhooks are served with a certificate that expires on %s", expires)


def _signature(path: Path) -> tuple[int, int, int]:
    # Kubernetes updates a volume of a Secret by changing a symlink: the inode changes, the time may not.
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
