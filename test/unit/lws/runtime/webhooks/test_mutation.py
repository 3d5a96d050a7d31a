"""Changes are collected per review, and applied one after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lws.runtime.webhooks.handlers import change_object, collected, is_mutating, patch_of


def _name(name: str) -> Any:
    return lambda obj: {"metadata": {**obj["metadata"], "name": name}}


def test_the_patch_of_all_changes() -> None:
    obj = {"metadata": {"name": "a"}}
    with collected() as changes:
        change_object(_name("b"))
        change_object(lambda obj: {"metadata": {**obj["metadata"], "labels": {}}})
    assert patch_of(obj, changes) == [
        {"op": "replace", "path": "/metadata/name", "value": "b"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
    ]
    assert obj == {"metadata": {"name": "a"}}


async def test_concurrent_reviews_are_independent() -> None:
    async def review(name: str) -> list[Any]:
        with collected() as changes:
            await asyncio.sleep(0)
            change_object(_name(name))
            await asyncio.sleep(0)
            return patch_of({"metadata": {}}, changes)

    patches = await asyncio.gather(*map(review, "abc"))
    assert [[operation["value"] for operation in patch] for patch in patches] == [["a"], ["b"], ["c"]]


def test_mutation_outside_a_review_raises() -> None:
    with pytest.raises(LookupError):
        change_object(_name("a"))


@pytest.mark.parametrize(("webhook", "answer"), [("mutate--v1-pod", True), ("validate--v1-pod", False)])
def test_webhooks_that_mutate_objects(webhook: str, answer: bool) -> None:
    assert is_mutating(webhook) is answer
