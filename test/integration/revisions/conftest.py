"""Where revisions are tried out: on the API server alone, no manager runs."""

from __future__ import annotations

import pytest

from test.integration.controllers.harness.world import admin_api
from tools.localcluster import Api, ClusterAccess


@pytest.fixture(scope="package")
def api(cluster: ClusterAccess) -> Api:
    """A client with all rights."""
    return admin_api(cluster)
