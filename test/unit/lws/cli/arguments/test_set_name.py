"""lws.cli.arguments.set_name: `demo`, `lws/demo`."""

from __future__ import annotations

import click
import pytest

from lws.cli.arguments.set_name import SetName, split_set_name


@pytest.mark.parametrize(
    "word",
    [
        "demo",
        "lws/demo",
        "leaderworkerset/demo",
        "leaderworkersets/demo",
        "LeaderWorkerSet/demo",
        "leaderworkerset.leaderworkerset.x-k8s.io/demo",
        "leaderworkersets.v1.leaderworkerset.x-k8s.io/demo",
    ],
)
def test_a_name_with_or_without_its_type(word: str) -> None:
    assert SetName().convert(word, None, None) == "demo"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("pod/demo", "'pod/demo' is no LeaderWorkerSet or DisaggregatedSet: use NAME, lws/NAME or dis"),
        ("/demo", "'/demo' is no LeaderWorkerSet or"),
        ("lws/", "'lws/' does not have a single type and name"),
        ("lws/demo/0", "'lws/demo/0' does not have a single type and name"),
        ("", "'' does not have a single type and name"),
    ],
)
def test_what_names_no_set(word: str, problem: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        SetName().convert(word, None, None)
    assert error.value.message.startswith(problem)


def test_the_type_and_the_name() -> None:
    assert split_set_name("lws/de") == ("lws/", "de")
    assert split_set_name("de") == ("", "de")


@pytest.mark.parametrize("kind", ["dset", "DisaggregatedSet", "disaggregatedsets.disaggregatedset.x-k8s.io"])
def test_disaggregated_sets(kind: str) -> None:
    found = SetName().convert(f"{kind}/llm", None, None)
    assert (found, found.type.resource.kind) == ("llm", "DisaggregatedSet")
    plain = SetName().convert("llm", None, None)
    assert (plain, plain.type.resource.kind) == ("llm", "LeaderWorkerSet")
    assert SetName().convert(found, None, None) is found
