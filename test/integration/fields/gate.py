"""Send any object, however invalid, to the API server, and fail if it does not answer in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from test.harness.world import World
from tools.localcluster import ApiError
from tools.localcluster.api import Call

Object = dict[str, Any]

DRY = {"dryRun": "All"}
_CONFLICT, _SERVER_ERROR = 409, 500
# Errors of a webhook that does not answer within the timeout of the API server. Other load may be the cause,
# so an error counts only if it happens again.
_TOO_LATE = ("deadline exceeded", "timeout", "timed out")
# Errors with code 500 of the API server's own RuntimeClass admission, for a name that no object can have.
_NO_NAME = ("resource name may not be empty", "invalid resource name")
_ATTEMPTS = 3
# Fields that the API server sets, with other values at each request.
_OF_REQUEST = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation")


class Overtaken(Exception):
    """Raised if the object exists already, or has another version."""


class Gate:
    """The API server with our webhooks, in one namespace."""

    def __init__(self, world: World, answers: Counter[str]) -> None:
        self.world = world
        self.answers = answers

    def create(self, obj: Mapping[str, Any], kind: str) -> Object | None:
        """Return the object that would be stored, or None if it is rejected."""
        return self._sent(Call("POST", self.world.path(kind), obj, query=DRY))

    def replace(self, obj: Mapping[str, Any], kind: str) -> Object | None:
        """Update the stored object in any version.

        Return the object that would be stored, or None if it is rejected.
        """
        name = str(obj["metadata"]["name"])
        while True:
            version = self.world.get(kind, name)["metadata"]["resourceVersion"]
            newest = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
            try:
                return self._sent(Call("PUT", self.world.path(kind, name), newest, query=DRY))
            except Overtaken:
                # The manager has written the status meanwhile, which it does a few times at most.
                continue

    def _sent(self, call: Call) -> Object | None:
        for attempt in range(_ATTEMPTS):
            try:
                stored = self.world.api.send(call)
            except ApiError as refusal:
                if refusal.status == _CONFLICT:
                    raise Overtaken from refusal
                is_late = any(words in str(refusal) for words in _TOO_LATE)
                if refusal.status >= _SERVER_ERROR and is_late and attempt < _ATTEMPTS - 1:
                    continue
                is_own = any(words in str(refusal) for words in _NO_NAME)
                assert refusal.status < _SERVER_ERROR or is_own, f"{refusal} to {call.body}"
                self.answers["refused"] += 1
                return None
            self.answers["accepted"] += 1
            return stored
        raise AssertionError("every attempt ends in an answer")


def sendable(stored: Mapping[str, Any]) -> Object:
    """Return a stored object in the form in which a client that has read it would create it."""
    metadata = {key: value for key, value in stored["metadata"].items() if key not in _OF_REQUEST}
    return {**{key: value for key, value in stored.items() if key != "status"}, "metadata": metadata}
