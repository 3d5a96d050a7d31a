"""Start managers behind a proxy that injects faults: several at the same time, with short Leases.

Each manager has a token of its own. All managers end with the stage.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from test.harness.fault_proxy import FaultProxy
from test.harness.product import QUICK_LEASE
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT, Deployment, ManagerProcess
from tools.localcluster import LocalCluster
from tools.localcluster.access import Access, kubeconfig_text, read_access


class Stage:
    """Starts managers of one release, each with a kubeconfig of its own."""

    def __init__(self, deployment: Deployment, cluster: LocalCluster) -> None:
        self.deployment = deployment
        self._cluster = cluster

    def manager(
        self,
        *flags: str,
        proxy: FaultProxy | None = None,
        configuration: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ManagerProcess:
        """Return a manager that is not started yet.

        proxy: the proxy through which the manager reaches the API server, if any.
        """
        manager = self.deployment.manager(
            *QUICK_LEASE, *flags, configuration=configuration, environment=environment
        )
        shared = self._cluster.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        access = read_access(shared.read_text())
        own = kubeconfig_of(manager)
        own.touch(mode=0o600)
        own.write_text(kubeconfig_text(replace(access, server=proxy.address) if proxy else access))
        manager.command = [*manager.command, f"--kubeconfig={own}"]
        return manager

    def start(self, *flags: str, proxy: FaultProxy | None = None) -> ManagerProcess:
        """Start a manager that answers the webhooks of the cluster, and wait until it is ready."""
        return self.serve(self.manager(*flags, proxy=proxy).start())

    def serve(self, manager: ManagerProcess) -> ManagerProcess:
        """Point the webhooks of the cluster at this manager, and wait until it is ready."""
        self.deployment.point_webhooks(manager)
        return manager.wait_ready()

    @contextmanager
    def proxy(self) -> Iterator[FaultProxy]:
        """Run a proxy in front of the API server. All managers are stopped before the proxy."""
        with FaultProxy(self._cluster.server, self._cluster.ca_file.read_bytes()) as proxy:
            try:
                yield proxy
            finally:
                self.end()

    def end(self) -> None:
        """Stop every running manager."""
        self.deployment.stop()


def kubeconfig_of(manager: ManagerProcess) -> Path:
    """Return the kubeconfig that the stage gave to a manager."""
    return manager.log_path.with_suffix(".kubeconfig")


def credential_of(manager: ManagerProcess) -> str:
    """Return the credential ID by which the audit log distinguishes managers of one ServiceAccount."""
    access: Access = read_access(kubeconfig_of(manager).read_text())
    claims = access.token.split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"JTI={decoded['jti']}"
