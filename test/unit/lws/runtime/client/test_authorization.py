"""Authorization of metrics readers: what the API server is asked, and how long its answers are cached."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lws.runtime.actions import Object
from lws.runtime.client.authorization import Authorizer
from lws.runtime.client.connection import Cluster, RateLimit
from lws.runtime.errors import Forbidden, Unreachable

USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}
PATH = "/metrics"


@dataclass
class FakeReviews:
    """An API server that answers reviews. users: user info by token. allowed: names of users."""

    users: dict[str, dict[str, Any]] = field(default_factory=lambda: {"good": USER})
    allowed: set[str] = field(default_factory=lambda: {USER["username"]})
    created: list[Object] = field(default_factory=list)
    error: Exception | None = None
    is_paced: bool = True

    def paced(self, rate: RateLimit | None) -> FakeReviews:
        self.is_paced = rate is not None
        return self

    async def create(self, review: Object) -> Any:
        self.created.append(review)
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
        return [review["kind"] for review in self.created]


class Clock:
    """A clock that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_authorizer(reviews: FakeReviews, clock: Clock | None = None) -> Authorizer:
    return Authorizer(cast(Cluster, reviews), clock or Clock())


async def test_reviews_and_writes_do_not_wait_for_each_other() -> None:
    reviews = FakeReviews()
    assert await make_authorizer(reviews).status("good", PATH) == 200
    assert not reviews.is_paced


@pytest.mark.parametrize(
    ("token", "allowed", "status", "expected_kinds"),
    [
        pytest.param("", True, 401, [], id="no token"),
        pytest.param("gööd", True, 401, [], id="not a bearer token"),
        pytest.param("\udcff", True, 401, [], id="token is not UTF-8"),
        pytest.param("bad", True, 401, ["TokenReview"], id="unauthenticated"),
        pytest.param("good", False, 403, ["TokenReview", "SubjectAccessReview"], id="forbidden"),
        pytest.param("good", True, 200, ["TokenReview", "SubjectAccessReview"], id="allowed"),
    ],
)
async def test_verdicts(token: str, allowed: bool, status: int, expected_kinds: list[str]) -> None:
    reviews = FakeReviews(allowed={USER["username"]} if allowed else set())
    assert await make_authorizer(reviews).status(token, PATH) == status
    assert reviews.kinds == expected_kinds


async def test_the_requests_of_a_review() -> None:
    reviews = FakeReviews()
    await make_authorizer(reviews).status("good", PATH)
    token, access = reviews.created
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
async def test_the_api_server_does_not_answer(error: Exception) -> None:
    reviews = FakeReviews(error=error)
    authorizer = make_authorizer(reviews)
    assert await authorizer.status("good", PATH) == 500
    reviews.error = None
    assert await authorizer.status("good", PATH) == 200, "an error is not remembered"


@pytest.mark.parametrize(
    ("token", "allowed", "seconds", "asked_again"),
    [
        pytest.param("good", True, 59.0, [], id="known and allowed"),
        pytest.param("good", True, 60.0, ["TokenReview"], id="authentication expired, still allowed"),
        pytest.param("good", True, 300.0, ["TokenReview", "SubjectAccessReview"], id="no longer allowed"),
        pytest.param("good", False, 29.0, [], id="refused"),
        pytest.param("good", False, 30.0, ["SubjectAccessReview"], id="refused a while ago"),
        pytest.param("bad", True, 59.0, [], id="unauthenticated"),
        pytest.param("bad", True, 60.0, ["TokenReview"], id="unauthenticated a while ago"),
    ],
)
async def test_answers_are_cached(token: str, allowed: bool, seconds: float, asked_again: list[str]) -> None:
    reviews, clock = FakeReviews(allowed={USER["username"]} if allowed else set()), Clock()
    authorizer = make_authorizer(reviews, clock)
    first = await authorizer.status(token, PATH)
    reviews.created.clear()
    clock.now += seconds
    assert await authorizer.status(token, PATH) == first
    assert reviews.kinds == asked_again


async def test_verdicts_are_cached_per_user_and_path() -> None:
    # Joined with plain spaces, both would be "a b c".
    users = {"one": {"uid": "a b", "username": "c"}, "two": {"uid": "a", "username": "b c"}}
    reviews = FakeReviews(users=users, allowed={"c"})
    authorizer = make_authorizer(reviews)
    assert [await authorizer.status(token, PATH) for token in ("one", "two")] == [200, 403]

    grouped = {"one": {**USER, "groups": ["scrapers"]}, "two": {**USER, "groups": []}}
    reviews = FakeReviews(users=grouped)
    authorizer = make_authorizer(reviews)
    for token in grouped:
        await authorizer.status(token, PATH)
    await authorizer.status("one", "/other")
    assert reviews.kinds.count("SubjectAccessReview") == 3


@dataclass
class SlowReviews(FakeReviews):
    """An API server that answers once the test opens the gate."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def create(self, review: Object) -> Any:
        answer = await super().create(review)
        await self.gate.wait()
        return answer


async def test_equal_tokens_at_the_same_moment_share_one_review() -> None:
    reviews = SlowReviews()
    authorizer = make_authorizer(reviews)
    requests = [asyncio.create_task(authorizer.status("good", PATH)) for _ in range(100)]
    await asyncio.sleep(0)
    requests.pop(0).cancel()
    reviews.gate.set()
    assert set(await asyncio.gather(*requests)) == {200}, "a cancelled request does not affect the others"
    assert reviews.kinds == ["TokenReview", "SubjectAccessReview"]


async def test_many_unknown_tokens_cause_few_reviews_and_are_not_cached() -> None:
    reviews, clock = FakeReviews(), Clock()
    authorizer = make_authorizer(reviews, clock)
    assert await authorizer.status("good", PATH) == 200
    reviews.created.clear()
    statuses = []
    for number in range(10_000):
        clock.now += 0.001
        statuses.append(await authorizer.status(f"bad-{number}", PATH))
    assert set(statuses) == {401, 429}
    assert 50 <= len(reviews.created) <= 60, "10 s at 5 per second plus the burst"
    assert all(len(cache._entries) <= 256 for cache in (authorizer._users, authorizer._unknown))
    assert authorizer._running == {}
    reviews.created.clear()
    assert await authorizer.status("good", PATH) == 200
    assert reviews.kinds == [], "unknown tokens do not evict known ones"


async def test_a_known_scraper_is_reviewed_again_despite_many_unknown_tokens() -> None:
    reviews, clock = FakeReviews(), Clock()
    authorizer = make_authorizer(reviews, clock)
    await authorizer.status("good", PATH)
    clock.now += 61.0
    flood = [await authorizer.status(f"bad-{number}", PATH) for number in range(100)]
    assert flood[-1] == 429
    reviews.created.clear()
    assert await authorizer.status("good", PATH) == 200
    assert reviews.kinds == ["TokenReview"]


async def test_hanging_reviews_of_unknown_tokens_are_limited() -> None:
    reviews, clock = SlowReviews(), Clock()
    authorizer = make_authorizer(reviews, clock)
    pending = []
    for number in range(100):
        clock.now += 1.0
        pending.append(asyncio.create_task(authorizer.status(f"bad-{number}", PATH)))
        await asyncio.sleep(0)
    reviews.gate.set()
    statuses = await asyncio.gather(*pending)
    assert (statuses.count(401), statuses.count(429)) == (10, 90)


async def test_an_invalidated_token_counts_as_unknown() -> None:
    reviews, clock = FakeReviews(), Clock()
    authorizer = make_authorizer(reviews, clock)
    await authorizer.status("good", PATH)
    reviews.users.clear()
    clock.now += 61.0
    assert await authorizer.status("good", PATH) == 401
    assert not authorizer._users.has_seen(next(iter(authorizer._unknown._entries)))
