"""A manager serves the metrics that the docs list, with the numbers of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from test.harness.disaggregated import standing
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.groups import settle
from test.harness.manifests import a_set, new_image
from test.harness.product import Product
from test.harness.scraping import Scrape, Scraper, a_scraper
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ClusterAccess
from tools.series import PAGES, REFERENCE

PAIR = "DisaggregatedSet"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def scraper(cluster: ClusterAccess, product: Product) -> Iterator[Scraper]:
    with a_scraper(cluster) as scraper:
        yield scraper


def listed() -> dict[str, tuple[str, set[str]]]:
    """Return the type and the labels of each series in the pages."""
    rows = (row for page in PAGES for row in ROW.findall((REFERENCE / page).read_text(encoding="utf-8")))
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def paused(is_paused: bool) -> dict[str, Any]:
    return {"spec": {"rolloutStrategy": {"paused": is_paused}}}


def test_served_metrics_equal_the_documented_ones_and_follow_the_cluster(
    world: World, product: Product, scraper: Scraper
) -> None:
    set_labels = {"namespace": world.namespace, "leaderworkerset": "served"}
    pair_labels = {"namespace": world.namespace, "disaggregatedset": "pair"}

    def scraped(accept: Any = lambda scrape: True, description: str = "a scrape") -> Scrape:
        return eventually(description, lambda: scraper.scrape(product.manager), accept)

    world.create(a_set("served", replicas=2))
    world.create(a_disaggregated_set("pair", roles(2, 1), rolloutStrategy={"paused": False}))
    settle(world, "served")
    standing.settle(world, "pair")
    start = "lws_leaderworkerset_"
    ready = scraped(
        lambda scrape: scrape.value(f"{start}groups", state="Ready", **set_labels) == 2, "two are shown ready"
    )
    for name in ("groups_desired", "groups_ready", "groups_updated"):
        assert ready.value(start + name, **set_labels) == 2, name
    assert ready.value("lws_disaggregatedset_groups_ready", role="prefill", **pair_labels) == 2
    assert ready.value(f"{start}last_group_start_duration_seconds", **set_labels) is not None
    assert (ready.value("lws_group_start_duration_seconds_count") or 0) >= 2

    world.patch(SET, "served", paused(True))
    world.patch(SET, "served", new_image("server:2"))
    world.patch(PAIR, "pair", new_roles(roles(2, 1, "server:2"), rolloutStrategy={"paused": True}))
    rolling = scraped(
        lambda scrape: (
            scrape.value(f"{start}rollout_in_progress", **set_labels) == 1
            and scrape.value("lws_disaggregatedset_rollout_in_progress", **pair_labels) == 1
        ),
        "two rollouts are reported",
    )
    expect_every_series(rolling)
    assert rolling.value(f"{start}revision_changes_total", **set_labels) == 1

    world.patch(SET, "served", paused(False))
    world.patch(PAIR, "pair", {"spec": {"rolloutStrategy": {"paused": False}}})
    settle(world, "served")
    standing.settle(world, "pair")
    rolled = scraped(
        lambda scrape: (
            scrape.value(f"{start}rollout_in_progress", **set_labels) == 0
            and scrape.value("lws_disaggregatedset_rollout_in_progress", **pair_labels) == 0
        ),
        "both rollouts are over",
    )
    for kind in ("LeaderWorkerSet", "DisaggregatedSet"):
        assert (rolled.value("lws_rollout_duration_seconds_count", kind=kind) or 0) >= 1
    assert (rolled.value(f"{start}group_recreations_total", reason="Rollout", **set_labels) or 0) >= 1
    assert rolled.value(f"{start}spurious_replacements_total") == 0

    world.delete("Pod", "served-1-1")
    settle(world, "served")
    failures = "PodDeleted", "PodReplaced"
    scraped(
        lambda scrape: any(
            scrape.value(f"{start}group_recreations_total", reason=reason, **set_labels)
            for reason in failures
        ),
        "the group that lost a pod is counted",
    )

    world.delete(SET, "served")
    world.delete(PAIR, "pair")
    scraped(
        lambda scrape: (
            not any(
                labels.items() <= sample.labels.items()
                for family in scrape.families.values()
                for sample in family.samples
                for labels in (set_labels, pair_labels)
            )
        ),
        "the series of deleted sets are removed",
    )


def expect_every_series(scrape: Scrape) -> None:
    """Check that the listed series are served as listed, and no others."""
    of_the_process = ("process_", "python_")
    served = {name for name in scrape.families if not name.startswith(of_the_process)}
    assert served == listed().keys()
    for name, (kind, labels) in listed().items():
        family = scrape.families[name]
        assert (family.type, scrape.labels_of(name)) == (kind, labels), name
        assert family.documentation.endswith("."), name
    controllers = {"leaderworkerset", "pod", "disaggregatedset"}
    for name, expected in {
        "workqueue_adds_total": controllers,
        "controller_runtime_reconcile_total": {*controllers, "cert-rotator"},
    }.items():
        assert {sample.labels["controller"] for sample in scrape.families[name].samples} == expected


def test_metrics_require_a_token(product: Product, scraper: Scraper) -> None:
    with pytest.raises(OSError, match="401"):
        Scraper("").read(product.manager)
