"""Call the API server and follow its collections, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
WATCH_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

_TIMEOUT_SECONDS = 60.0
_Answer = tuple[int, bytes, str | None]
"""Status, payload, and the seconds after which to repeat the request."""
# The client gives up a connection that is silent for a minute, so the server must end the stream sooner.
_WATCH_SECONDS = 25
_RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)


class ApiError(RuntimeError):
    """The API server has rejected a request; contains the HTTP status and the server's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Call:
    """One request. The client appends `query` to `path`; `waits` obeys Retry-After."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    waits: bool = True

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@contextmanager
def tolerating(*statuses: int) -> Iterator[None]:
    """Ignore rejections with one of these statuses, because what the request asks for is already done."""
    try:
        yield
    except ApiError as refusal:
        if refusal.status not in statuses:
            raise


class Api:
    """A client that several threads may use. Each thread keeps a connection of its own."""

    def __init__(self, server: str, ca: bytes, token: str, user_agent: str = "localcluster") -> None:
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._tls = ssl.create_default_context(cadata=ca.decode())
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": user_agent}
        self._local = threading.local()
        self._kept: list[http.client.HTTPSConnection] = []

    def get(self, path: str) -> dict[str, Any]:
        return self.send(Call("GET", path))

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.send(Call("POST", path, body))

    def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        return self.send(Call("PATCH", path, patch, content_type=MERGE_PATCH))

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.send(Call("DELETE", path, options or {}))

    def send(self, call: Call) -> dict[str, Any]:
        """Return the response as JSON; raises ApiError if the request is rejected, OSError or HTTPException
        if there is no response.

        Like client-go, the client repeats a request if the server asks for that, for up to a minute. An API
        server that has just started, or has just got a CRD, rejects requests for what it has not read yet.
        """
        connection = self._own_connection()
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            status, payload, pause = self._ask_again(connection, call)
            is_asked_to_wait = status == http.client.TOO_MANY_REQUESTS and pause is not None and call.waits
            if not is_asked_to_wait or time.monotonic() + float(pause or 0) > deadline:
                break
            time.sleep(float(pause or 0))
        _raise_for_status(status, payload)
        body: dict[str, Any] = json.loads(payload)
        return body

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._kept:
            connection.close()

    def watch(self, call: Call) -> Iterator[dict[str, Any]]:
        """Yield watch events until the server ends the stream; raises ApiError for a rejection or error."""
        connection = self._connect()
        try:
            with self._exchange(connection, call) as answer:
                if answer.status != http.client.OK:
                    _raise_for_status(answer.status, answer.read())
                for line in answer:
                    event: dict[str, Any] = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError(status.get("code", 500), status.get("message", "watch failed"))
                    yield event
        finally:
            connection.close()

    def _ask_again(self, connection: http.client.HTTPSConnection, call: Call) -> _Answer:
        try:
            return self._ask(connection, call)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            # The server may have closed a kept connection meanwhile, which says nothing about the server's
            # present state.
            return self._ask(connection, call)

    def _ask(self, connection: http.client.HTTPSConnection, call: Call) -> _Answer:
        """Send a request, and close the connection after a failure so that it can be used again."""
        try:
            answer = self._exchange(connection, call)
            return answer.status, answer.read(), answer.getheader("Retry-After")
        except BaseException:
            connection.close()
            raise

    def _own_connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
            self._kept.append(self._local.connection)
        connection: http.client.HTTPSConnection = self._local.connection
        return connection

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._host, self._port, context=self._tls, timeout=_TIMEOUT_SECONDS
        )

    def _exchange(self, connection: http.client.HTTPSConnection, call: Call) -> http.client.HTTPResponse:
        body = None if call.body is None else json.dumps(call.body)
        headers = {**self._headers, "Content-Type": call.content_type, "Accept": call.accept}
        connection.request(call.method, call.target, body, headers)
        return connection.getresponse()


def ask(address: str, token: str = "", seconds: float = 10.0) -> tuple[int, str]:
    """Return status and text of an address of one of our processes; (0, reason) if nothing answers.

    The certificate is not verified: the process has made it for itself.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=seconds, context=trusting) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
    except OSError as error:
        return 0, str(error)


def _raise_for_status(status: int, payload: bytes) -> None:
    if status < http.client.BAD_REQUEST:
        return
    try:
        message = json.loads(payload).get("message", "")
    except ValueError:
        message = payload.decode(errors="replace")[:500]
    raise ApiError(status, message)


def watch_call(path: str, version: str, accept: str = Call.accept) -> Call:
    """Return the request for the changes since `version`, which ends after `_WATCH_SECONDS`."""
    query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
    return Call("GET", path, query={**query, "timeoutSeconds": str(_WATCH_SECONDS)}, accept=accept)


@dataclass(frozen=True)
class Stream:
    """The changes of one collection; `consider` gets each object that exists, maybe more than once."""

    api: Api
    path: str
    consider: Callable[[dict[str, Any]], None]
    metadata_only: bool = False

    def run(self) -> None:
        """Follow the collection for ever, and list it again after every failure."""
        version = ""
        while True:
            try:
                version = self._watch(version) if version else self._list()
            except (ApiError, OSError, http.client.HTTPException, ValueError) as error:
                _log.warning("the stream of %s broke, listing again: %s", self.path, error)
                version = ""
                time.sleep(_RETRY_SECONDS)

    def _list(self) -> str:
        accept = METADATA_ONLY if self.metadata_only else Call.accept
        response = self.api.send(Call("GET", self.path, accept=accept))
        # Lists of metadata contain null instead of an empty list.
        for item in response["items"] or ():
            self.consider(item)
        return str(response["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        accept = WATCH_METADATA_ONLY if self.metadata_only else Call.accept
        for event in self.api.watch(watch_call(self.path, version, accept)):
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] in ("ADDED", "MODIFIED"):
                self.consider(event["object"])
        return version
