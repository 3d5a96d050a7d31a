"""Who may read the metrics: what the API server is asked, and for how long its answers are remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lws.actions import Object
from lws.cluster.authorization import Authorizer
from lws.cluster.connection import Cluster
from lws.cluster.errors import Forbidden, Unreachable

USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}
PATH = "/metrics"


@dataclass
class FakeReviews:
    """An API server that reviews. users: by token. allowed: names of users."""

    users: dict[str, dict[str, Any]] = field(default_factory=lambda: {"good": USER})
    allowed: set[str] = field(default_factory=lambda: {USER["username"]})
    asked: list[Object] = field(default_factory=list)
    error: Exception | None = None

    async def create(self, review: Object) -> Any:
        self.asked.append(review)
        if self.error is not None:
            raise self.error
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            return {
                "status": {"authenticated": True, "user": user} if user is not None else {"error": "unknown"}
            }
        return {"status": {"allowed": spec["user"] in self.allowed}}

    @property
    def kinds(self) -> list[str]:
        return [review["kind"] for review in self.asked]


class Clock:
    """Seconds that the test says."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(reviews: FakeReviews, clock: Clock | None = None) -> Authorizer:
    return Authorizer(cast(Cluster, reviews), clock or Clock())


@pytest.mark.parametrize(
    ("token", "allowed", "status", "asked"),
    [
        pytest.param("", True, 401, [], id="no token"),
        pytest.param("gööd", True, 401, [], id="no bearer token, not even JSON perhaps"),
        pytest.param("\udcff", True, 401, [], id="bytes that are no text"),
        pytest.param("bad", True, 401, ["TokenReview"], id="nobody"),
        pytest.param("good", False, 403, ["TokenReview", "SubjectAccessReview"], id="may not"),
        pytest.param("good", True, 200, ["TokenReview", "SubjectAccessReview"], id="may"),
    ],
)
async def test_verdicts(token: str, allowed: bool, status: int, asked: list[str]) -> None:
    reviews = FakeReviews(allowed={USER["username"]} if allowed else set())
    assert await made(reviews).status(token, PATH) == status
    assert reviews.kinds == asked


async def test_what_is_asked() -> None:
    reviews = FakeReviews()
    await made(reviews).status("good", PATH)
    token, access = reviews.asked
    assert token == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": {"token": "good"},
    }
    assert access == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": USER["username"],
            "uid": "u-1",
            "groups": USER["groups"],
            "extra": USER["extra"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


@pytest.mark.parametrize("error", [Unreachable("no answer"), Forbidden(403, "Forbidden", "may not review")])
async def test_an_api_server_that_cannot_say(error: Exception) -> None:
    reviews = FakeReviews(error=error)
    authorizer = made(reviews)
    assert await authorizer.status("good", PATH) == 500
    reviews.error = None
    assert await authorizer.status("good", PATH) == 200, "an error is not remembered"


@pytest.mark.parametrize(
    ("token", "allowed", "seconds", "asked_again"),
    [
        pytest.param("good", True, 59.0, [], id="known and allowed"),
        pytest.param("good", True, 60.0, ["TokenReview"], id="known no more, allowed still"),
        pytest.param("good", True, 300.0, ["TokenReview", "SubjectAccessReview"], id="allowed no more"),
        pytest.param("good", False, 29.0, [], id="refused"),
        pytest.param("good", False, 30.0, ["SubjectAccessReview"], id="refused a while ago"),
        pytest.param("bad", True, 59.0, [], id="nobody"),
        pytest.param("bad", True, 60.0, ["TokenReview"], id="nobody a while ago"),
    ],
)
async def test_answers_are_remembered_for_a_while(
    token: str, allowed: bool, seconds: float, asked_again: list[str]
) -> None:
    reviews, clock = FakeReviews(allowed={USER["username"]} if allowed else set()), Clock()
    authorizer = made(reviews, clock)
    first = await authorizer.status(token, PATH)
    reviews.asked.clear()
    clock.now += seconds
    assert await authorizer.status(token, PATH) == first
    assert reviews.kinds == asked_again


async def test_a_verdict_is_about_one_user_and_one_path() -> None:
    # Joined without care, both would be "a b c".
    users = {"one": {"uid": "a b", "username": "c"}, "two": {"uid": "a", "username": "b c"}}
    reviews = FakeReviews(users=users, allowed={"c"})
    authorizer = made(reviews)
    assert [await authorizer.status(token, PATH) for token in ("one", "two")] == [200, 403]

    grouped = {"one": {**USER, "groups": ["scrapers"]}, "two": {**USER, "groups": []}}
    reviews = FakeReviews(users=grouped)
    authorizer = made(reviews)
    for token in grouped:
        await authorizer.status(token, PATH)
    await authorizer.status("one", "/other")
    assert reviews.kinds.count("SubjectAccessReview") == 3


async def test_only_so_many_answers_are_remembered() -> None:
    reviews = FakeReviews()
    authorizer = made(reviews)
    await authorizer.status("good", PATH)
    for number in range(256):
        await authorizer.status(f"bad-{number}", PATH)
    reviews.asked.clear()
    assert await authorizer.status("good", PATH) == 200
    assert reviews.kinds == ["TokenReview"]
