"""During the other tests of this package, the manager had enough permissions, did not crash and logged no
bug.

The name of this file makes it run last.
"""

from __future__ import annotations

from test.harness.audit import AuditLog
from test.harness.product import Product
from tools.localcluster import LocalCluster

# Rejections by the namespace lifecycle and by quotas are not missing permissions.
OTHER_REASONS = ("because it is being terminated", "exceeded quota")


def test_no_request_was_forbidden(local_cluster: LocalCluster) -> None:
    requests = AuditLog(local_cluster.audit_log).requests()
    assert any(request.is_write for request in requests)
    refused = [
        str(request)
        for request in requests
        if request.code == 403 and not _has_other_reasons(request.message)
    ]
    assert refused == []


def test_no_manager_crashed(product: Product) -> None:
    assert product.unexpected_ends == 0
    assert product.manager.is_running


def test_no_exception_was_logged(product: Product) -> None:
    signs = ("Traceback", "this is a bug", "was never awaited", "never retrieved", "Exception")
    assert [line for line in product.log().splitlines() if any(sign in line for sign in signs)] == []


def _has_other_reasons(message: str) -> bool:
    return any(words in message for words in OTHER_REASONS)
