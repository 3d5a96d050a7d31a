"""A manager behind a proxy keeps working when its token expires.

Only the proxy can resolve the address of the API server.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from test.harness.groups import settle
from test.harness.manifests import a_set, scaled_to
from test.harness.proxied import Stage, kubeconfig_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.unit.connect_proxy import ConnectProxy, proxying
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import LocalCluster

pytestmark = pytest.mark.local_only

SERVER = "https://api.invalid:6443"
API = "client.authentication.k8s.io/v1"


class Tunnels:
    """A proxy in a separate thread."""

    def __init__(self, proxy: ConnectProxy, loop: asyncio.AbstractEventLoop) -> None:
        self.proxy, self._loop = proxy, loop

    def cut(self) -> None:
        """Close all tunnels; new ones are allowed."""
        asyncio.run_coroutine_threadsafe(self.proxy.stop(), self._loop).result(10.0)


@contextmanager
def tunnels(port: int) -> Iterator[Tunnels]:
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10.0)

    try:
        yield Tunnels(wait(stack.enter_async_context(proxying(port))), loop)
    finally:
        wait(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10.0)
        loop.close()


class Plugin:
    """A credential plugin, and tokens that expire when the test deletes their Secret."""

    def __init__(self, directory: Path, cluster: LocalCluster) -> None:
        self._answer, self._runs, self._program = (directory / name for name in ("answer", "runs", "plugin"))
        self._cluster = cluster
        self._program.write_text(
            f"open({str(self._runs)!r}, 'a').write('.')\nprint(open({str(self._answer)!r}).read())\n"
        )

    @property
    def user(self) -> dict[str, object]:
        """Return the user entry of the kubeconfig."""
        return {"exec": {"apiVersion": API, "command": sys.executable, "args": ["-S", str(self._program)]}}

    @property
    def runs(self) -> int:
        return len(self._runs.read_text())

    def hand_out(self, name: str) -> str:
        """Return a new token from now on, which is valid as long as the Secret of this name exists."""
        kubectl = self._cluster.kubectl
        kubectl("create", "secret", "generic", name, "-n", NAMESPACE)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}")
        token = kubectl("create", "token", SERVICE_ACCOUNT, "-n", NAMESPACE, *bound).strip()
        answer = {"apiVersion": API, "kind": "ExecCredential", "status": {"token": token}}
        self._answer.write_text(json.dumps(answer))
        return token

    def end(self, name: str, token: str) -> None:
        """Revoke the tokens of a Secret, and wait until the API server rejects them."""
        self._cluster.kubectl("delete", "secret", name, "-n", NAMESPACE)
        eventually("the token is rejected", lambda: self._status(token), lambda status: status == 401)

    def _status(self, token: str) -> int:
        request = urllib.request.Request(
            f"{self._cluster.server}/api/v1/namespaces", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            context = ssl.create_default_context(cafile=str(self._cluster.ca_file))
            with urllib.request.urlopen(request, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def test_a_manager_behind_a_proxy_survives_the_expiry_of_its_token(
    stage: Stage, world: World, cluster: LocalCluster, tmp_path: Path
) -> None:
    plugin = Plugin(tmp_path, cluster)
    first = plugin.hand_out("first")
    port = urlsplit(cluster.server).port
    assert port is not None
    with tunnels(port) as tunnel:
        manager = stage.manager(environment={"NO_PROXY": "*"})
        content = yaml.safe_load(kubeconfig_of(manager).read_text())
        named = {"server": SERVER, "proxy-url": tunnel.proxy.url, "tls-server-name": "localhost"}
        content["clusters"][0]["cluster"] |= named
        content["users"][0]["user"] = plugin.user
        kubeconfig_of(manager).write_text(yaml.safe_dump(content))
        stage.serve(manager.start())
        world.create(a_set("served", replicas=1, size=2))
        settle(world, "served")
        assert plugin.runs == 1, "a token without an expiry is used until it is rejected"
        plugin.hand_out("second")
        plugin.end("first", first)
        tunnel.cut()
        world.patch(SET, "served", scaled_to(2))
        settle(world, "served")
        assert 2 <= plugin.runs <= 4
        assert set(tunnel.proxy.asked) == {"api.invalid:6443"}
        assert manager.is_running and "Traceback" not in manager.log_path.read_text()
        stage.end()
