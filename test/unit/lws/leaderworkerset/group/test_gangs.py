"""Tests of the providers that the configuration can name, and of what holds for all of them."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.group.gangs import GANG_VERBS, PROVIDERS
from lws_api.config.v1alpha1 import GANG_PROVIDERS


def test_every_provider_has_permissions() -> None:
    assert tuple(PROVIDERS) == GANG_PROVIDERS == tuple(GANG_VERBS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_versions(name: str) -> None:
    provider = PROVIDERS[name]
    assert provider.api_version in provider.versions
    groups = {version.rpartition("/")[0] for version in provider.versions}
    assert groups == {group for group, _ in GANG_VERBS[name]}
