"""Webhooks answer without a gap while `helm upgrade` changes their configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from test.harness.groups import settle
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.bad_days.reviews import ca_bundles, secret_of
from tools.localcluster import ApiError, LocalCluster

pytestmark = pytest.mark.local_only

# Helm sends what the chart renders, but on a cluster without a network, Services do not work.
POST_RENDERER = """#!{python}
import sys, yaml

documents = list(yaml.safe_load_all(sys.stdin))
for document in filter(None, documents):
    for webhook in document.get("webhooks") or ():
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"]["url"] = "https://127.0.0.1:{port}" + path
yaml.safe_dump_all(documents, sys.stdout)
"""


@pytest.fixture
def to_this_host(product: Product, tmp_path: Path) -> str:
    """Return the flag with which helm points webhooks at the manager."""
    script = tmp_path / "to-this-host"
    port = product.manager.webhook_port
    script.write_text(POST_RENDERER.format(python=sys.executable, port=port))
    script.chmod(0o755)
    return f"--post-renderer={script}"


def test_webhooks_are_available_during_an_upgrade(
    product: Product, cluster: LocalCluster, world: World, to_this_host: str
) -> None:
    world.create(a_set("web", replicas=2, size=2))
    settle(world, "web")
    secret, bundles, before = secret_of(cluster), ca_bundles(cluster), specs(identities(world))
    failures: list[str] = []
    with requesting_reviews(world, failures) as requests:
        # None is too short for a busy machine.
        for seconds in (28, 29, 30):
            product.deployment.install(to_this_host, "--set", f"webhooks.timeoutSeconds={seconds}")
        eventually("many reviews were requested", lambda: requests, lambda seen: len(seen) > 20)
    assert failures == []
    assert secret_of(cluster) == secret
    assert ca_bundles(cluster) == bundles
    assert differences(before, specs(identities(world))) == []
    eventually(
        "the manager is ready", lambda: product.manager.probe("readyz")[0], lambda status: status == 200
    )


@contextmanager
def requesting_reviews(world: World, failures: list[str]) -> Iterator[list[int]]:
    """Have sets reviewed all the time, without creating any."""
    requests: list[int] = []

    def request_review() -> None:
        requests.append(1)
        try:
            world.api.create(f"{world.path(SET)}?dryRun=All", a_set("probe"))
        except ApiError as refusal:
            failures.append(str(refusal))

    with repeated(request_review, 0.05):
        yield requests
