"""The committed extract of the OpenAPI document equals what the API server of the pinned release serves."""

from __future__ import annotations

import json

import pytest

from tools.localcluster import ClusterAccess
from tools.openapi import extract


def test_the_extract_equals_the_document_of_the_server(cluster: ClusterAccess) -> None:
    serves = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    if not serves.startswith(f"v{extract.KUBERNETES}"):
        pytest.skip(f"the extract is of Kubernetes {extract.KUBERNETES}, this server is {serves}")
    document = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/apis/apps/v1"))
    assert extract.extract(document) == extract.read()
