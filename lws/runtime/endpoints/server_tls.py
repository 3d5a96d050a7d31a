"""TLS contexts of our servers, with the newest certificate."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lws.config import TlsSettings


class ServerTls:
    """The TLS side of a server. No handshake succeeds before the first `install`.

    Raises ssl.SSLError for ciphers that OpenSSL does not know.
    """

    def __init__(self, policy: TlsSettings) -> None:
        self.context = _context(policy)
        self.loaded = asyncio.Event()
        """Set once a certificate has been installed."""

    def install(self, certificate: bytes, key: bytes) -> None:
        """Present this certificate (PEM, leaf first) on new connections. Open connections continue.

        Raises ValueError, and keeps the former one, if certificate and key are unreadable or do not match.
        """
        try:
            # Loaded into another context first: a bad file would leave the live context with a certificate
            # and key that do not match.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
            _load(self.context, certificate, key)
        except ssl.SSLError as error:
            raise ValueError(
                f"certificate and key cannot be used: {error.reason or error}; "
                "both must be PEM, unencrypted, and belong together"
            ) from error
        self.loaded.set()


def _context(policy: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = policy.minimum_version
    # Renegotiation costs the server far more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if policy.ciphers:
        context.set_ciphers(":".join(policy.ciphers))
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _as_file(certificate) as certificate_path, _as_file(key) as key_path:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate_path, key_path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read the content. On Linux, private keys never reach a disk."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("lws-tls")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        # Only this user can read the directory, and it is deleted right after loading.
        with tempfile.TemporaryDirectory(prefix="lws-tls-") as directory:
            path = Path(directory, "pem")
            path.write_bytes(content)
            yield str(path)
