"""kopf's own admission function, wired as `kopf.run` does it, and certificates for servers on loopback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime

import kopf
import pytest
from kopf._cogs.structs.references import Insights
from kopf._core.engines.admission import serve_admission_request
from kopf._core.reactor.inventory import ResourceMemories

from lws.runtime.certificates.serving_certificate import Certificates, renewed
from lws.runtime.webhooks.server import Dispatcher

Wired = tuple[kopf.WebhookFn, ResourceMemories]
WireKopf = Callable[..., Wired]


def _new_certificates() -> Certificates:
    renewal = renewed(Certificates(), ("127.0.0.1", "webhook.test"), datetime.now(UTC))
    assert renewal is not None
    return renewal[0]


@pytest.fixture(scope="session")
def certificates(shared_keys: None) -> Certificates:
    """Certificates for 127.0.0.1 and webhook.test."""
    return _new_certificates()


@pytest.fixture(scope="session")
def other_certificates(shared_keys: None) -> Certificates:
    """Certificates for the same names, from another CA."""
    return _new_certificates()


@pytest.fixture(params=["kopf's own function", "our dispatcher"])
def wire_kopf(request: pytest.FixtureRequest) -> WireKopf:
    """Return a function that wires a registry to an admission function, kopf's own or our dispatcher.

    The two admission functions must answer the same. The returned function takes the registry and further
    kinds, and also returns kopf's memories of objects.
    """

    def wire(
        registry: kopf.OperatorRegistry, *more: kopf.Resource
    ) -> tuple[kopf.WebhookFn, ResourceMemories]:
        insights = Insights()
        insights.webhook_resources.update(
            {
                kopf.Resource("", "v1", "pods", kind="Pod"),
                kopf.Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", kind="LeaderWorkerSet"),
                *more,
            }
        )
        memories = ResourceMemories()
        serve = functools.partial(
            serve_admission_request,
            settings=kopf.OperatorSettings(),
            memories=memories,
            memobase=kopf.Memo(),
            registry=registry,
            insights=insights,
            indices={},
        )
        return (serve if request.param == "kopf's own function" else Dispatcher(registry)), memories

    return wire
