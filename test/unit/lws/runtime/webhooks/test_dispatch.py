"""What the dispatcher does in addition to answering as kopf's own function does.

The answers themselves are tested with every handler: `wire_kopf` runs those tests with both functions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import kopf
import orjson
import pytest

from lws.runtime.client.resources import PODS
from lws.runtime.webhooks.handlers import refuse, register
from lws.runtime.webhooks.server import AdmissionServer, Dispatcher, dispatching, reviewed

MUTATE, VALIDATE = "mutate--v1-pod", "validate--v1-pod"


def a_review(operation: str = "CREATE") -> bytes:
    pod = {"metadata": {"name": "set-0", "namespace": "default"}}
    objects = {"oldObject": pod} if operation == "DELETE" else {"object": pod}
    request = {
        "uid": "review-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": operation,
        **objects,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return orjson.dumps(review)


def registry_with(handler: Any) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    webhooks = dict.fromkeys((MUTATE, VALIDATE), PODS)
    register(registry, webhooks, dict.fromkeys(webhooks, handler))
    return registry


async def response_of(dispatch: Any, webhook: str, body: bytes) -> dict[str, Any]:
    answer = await reviewed(dispatch, webhook, PODS, body)
    return cast(dict[str, Any], orjson.loads(answer.body)["response"])


async def refusing(*, warnings: list[str], namespace: str, **_: Any) -> None:
    warnings.append(f"seen in {namespace}")
    refuse("not like this")


@pytest.mark.parametrize(
    ("webhook", "operation", "is_asked"),
    [(MUTATE, "DELETE", False), (VALIDATE, "DELETE", True), (MUTATE, "CREATE", True)],
)
async def test_deleted_objects_are_not_mutated(
    wire_kopf: Any, webhook: str, operation: str, is_asked: bool
) -> None:
    dispatch, _ = wire_kopf(registry_with(refusing))
    response = await response_of(dispatch, webhook, a_review(operation))
    assert response["allowed"] is not is_asked


async def test_a_refusal_keeps_its_warnings(wire_kopf: Any) -> None:
    dispatch, _ = wire_kopf(registry_with(refusing))
    assert await response_of(dispatch, VALIDATE, a_review()) == {
        "uid": "review-1",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "not like this"},
        "warnings": ["seen in default"],
    }


async def test_an_exception_is_reported_in_the_answer(wire_kopf: Any) -> None:
    async def failing(**_: Any) -> None:
        raise RuntimeError("no such thing")

    dispatch, _ = wire_kopf(registry_with(failing))
    response = await response_of(dispatch, VALIDATE, a_review())
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "no such thing" in response["status"]["message"]


async def test_reviews_of_unserved_kinds_are_rejected() -> None:
    response = await response_of(Dispatcher(kopf.OperatorRegistry()), VALIDATE, a_review())
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "not served" in response["status"]["message"]


async def test_kopf_opens_the_server_and_its_registry_has_the_handlers() -> None:
    answering: list[Any] = []

    class Server:
        async def __call__(self, webhookfn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
            answering.append(webhookfn)
            yield kopf.WebhookClientConfig(url="https://localhost:9443")

    async def too_long(*_: Any, **__: Any) -> Any:
        raise AssertionError("kopf's own function takes four times as long")

    serve = dispatching(cast(AdmissionServer, Server()), registry_with(refusing))
    async for opened in serve(cast(kopf.WebhookFn, too_long)):
        assert opened == {"url": "https://localhost:9443"}
    assert (await response_of(answering[0], VALIDATE, a_review()))["status"]["code"] == 403
