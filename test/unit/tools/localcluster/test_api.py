"""tools.localcluster.api: requests, persistent connections and rejections."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tools.localcluster.api import Api, ApiError, Call
from tools.localcluster.credentials import write_credentials


class Answer:
    def __init__(self, status: int, body: Any, **headers: str) -> None:
        self.status = status
        self.getheader = headers.get
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def read(self) -> bytes:
        return self._body


class Connection:
    """A connection that takes its answers from a list and raises exceptions in it."""

    def __init__(self, answers: list[Answer | Exception]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, str, str | None]] = []
        self.closed = 0

    def request(self, method: str, target: str, body: str | None, headers: dict[str, str]) -> None:
        assert headers["Authorization"] == "Bearer secret"
        self.requests.append((method, target, body))

    def getresponse(self) -> Answer:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="module")
def ca(shared_keys: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_credentials(tmp_path_factory.mktemp("api") / "pki").ca.read_bytes()


def connected(
    ca: bytes, monkeypatch: pytest.MonkeyPatch, *answers: Answer | Exception
) -> tuple[Api, Connection]:
    connection = Connection(list(answers))
    api = Api("https://127.0.0.1:1", ca, "secret")
    monkeypatch.setattr(api, "_connect", lambda: connection)
    return api, connection


def test_query_is_appended() -> None:
    assert Call("GET", "/x", query={"a": "b c"}).target == "/x?a=b+c"
    assert Call("GET", "/x").target == "/x"


def test_verbs(ca: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    api, connection = connected(ca, monkeypatch, *[Answer(200, {"ok": True})] * 4)
    answers = [api.get("/a"), api.create("/b", {"b": 1}), api.merge("/c", {"c": 1}), api.delete("/d")]
    assert answers == [{"ok": True}] * 4
    assert connection.requests == [
        ("GET", "/a", None),
        ("POST", "/b", '{"b": 1}'),
        ("PATCH", "/c", '{"c": 1}'),
        ("DELETE", "/d", "{}"),
    ]


def test_stale_connection_is_opened_again(ca: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    disconnect = http.client.RemoteDisconnected("closed by the server")
    api, connection = connected(ca, monkeypatch, disconnect, Answer(200, {"ok": True}))
    assert api.get("/a") == {"ok": True}
    assert connection.closed == 1


def test_an_absent_server_is_an_error(ca: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    api, _ = connected(ca, monkeypatch, ConnectionResetError(), ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        api.get("/a")


@pytest.mark.parametrize(
    ("answer", "message"),
    [(Answer(409, {"message": "UID differs"}), "409: UID differs"), (Answer(502, b"<html>"), "502: <html>")],
    ids=["status object", "not JSON"],
)
def test_refusal(answer: Answer, message: str, ca: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    api, _ = connected(ca, monkeypatch, answer)
    with pytest.raises(ApiError, match=message) as caught:
        api.get("/a")
    assert caught.value.status == answer.status


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the requested pauses; time advances only by them."""
    pauses: list[float] = []
    monkeypatch.setattr("tools.localcluster.api.time.sleep", pauses.append)
    monkeypatch.setattr("tools.localcluster.api.time.monotonic", lambda: sum(pauses))
    return pauses


def later(seconds: str) -> Answer:
    return Answer(429, {"message": "storage is (re)initializing"}, **{"Retry-After": seconds})


def test_a_throttled_request_is_retried_after_the_given_delay(
    ca: bytes, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    api, _ = connected(ca, monkeypatch, later("1"), later("2"), Answer(200, {"ok": True}))
    assert api.get("/a") == {"ok": True}
    assert slept == [1, 2]


def test_a_throttled_request_is_retried_for_a_minute_only(
    ca: bytes, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    api, connection = connected(ca, monkeypatch, *[later("20")] * 10)
    with pytest.raises(ApiError, match="429: storage"):
        api.get("/a")
    assert len(connection.requests) == 4


@pytest.mark.parametrize(
    ("answer", "waits"), [(Answer(429, {}), True), (later("1"), False)], ids=["no time", "unwanted"]
)
def test_other_requests_are_not_retried(
    answer: Answer, waits: bool, ca: bytes, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    api, _ = connected(ca, monkeypatch, answer)
    with pytest.raises(ApiError, match="429"):
        api.send(Call("POST", "/eviction", {}, waits=waits))
    assert not slept


def test_close_closes_kept_connections(ca: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    api, connection = connected(ca, monkeypatch, Answer(200, {}))
    api.get("/a")
    assert connection.closed == 0
    api.close()
    assert connection.closed == 1
