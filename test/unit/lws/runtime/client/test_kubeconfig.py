"""lws.runtime.client.kubeconfig: the cluster and namespace of a command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.runtime.client import kubeconfig
from lws.runtime.client.kubeconfig import NoCluster, context_names, load_configuration, load_context
from lws.runtime.errors import ClusterError


def a_file(path: Path, *names: str, current: str | None = None, **context: str) -> Path:
    """Write a kubeconfig with a cluster, a user and a context for each name; the first is the current one."""
    config: dict[str, Any] = {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}} for name in names],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}} for name in names],
        "current-context": names[0] if current is None else current,
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the kubeconfig of the user who runs the tests, and any sign of a pod."""
    monkeypatch.setattr(kubeconfig, "_HOME_FILE", tmp_path / "home-config")
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home-config"


async def test_the_current_context_and_its_namespace(tmp_path: Path) -> None:
    path = a_file(tmp_path / "config", "a", "b", namespace="team")
    context = await load_context(str(path), None, {})
    assert (context.configuration.host, context.namespace) == ("https://a", "team")


async def test_another_context(tmp_path: Path) -> None:
    path = a_file(tmp_path / "config", "a", "b")
    context = await load_context(str(path), "b", {})
    assert (context.configuration.host, context.namespace) == ("https://b", "default")


async def test_the_option_precedes_the_environment_and_the_home_directory(tmp_path: Path, home: Path) -> None:
    a_file(home, "home")
    environment = {"KUBECONFIG": str(a_file(tmp_path / "two", "env"))}
    option_file = a_file(tmp_path / "one", "option")
    hosts = [
        (await load_context(option, None, variables)).configuration.host
        for option, variables in ((str(option_file), environment), (None, environment), (None, {}))
    ]
    assert hosts == ["https://option", "https://env", "https://home"]


async def test_the_first_of_several_files_applies_and_missing_files_are_skipped(tmp_path: Path) -> None:
    first = a_file(tmp_path / "one", "a", current="")
    second, third = a_file(tmp_path / "two", "b"), a_file(tmp_path / "three", "c")
    listed = os.pathsep.join(map(str, (tmp_path / "none", first, second, third)))
    context = await load_context(None, None, {"KUBECONFIG": listed})
    assert context.configuration.host == "https://b"


async def test_the_service_account_is_used_in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    namespace = tmp_path / "namespace"
    namespace.write_text("team\n")
    monkeypatch.setattr(kubeconfig, "_POD_NAMESPACE", namespace)

    def in_cluster(client_configuration: Any, try_refresh_token: bool) -> None:
        client_configuration.host = "https://10.0.0.1"

    monkeypatch.setattr(kubeconfig, "load_incluster_config", in_cluster)
    context = await load_context(None, None, {})
    assert (context.configuration.host, context.namespace) == ("https://10.0.0.1", "team")


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": "/none/a:/none/b"}])
async def test_no_configuration(environment: dict[str, str]) -> None:
    with pytest.raises(NoCluster, match="no cluster configured: give --kubeconfig"):
        await load_context(None, None, environment)


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        ("{}", None, "has no current-context: choose one with --context"),
        ("a: [", None, "cannot be used: while parsing"),
        ("- 1", None, "has no current-context"),
        ("current-context: a\ncontexts: []", None, "cannot be used"),
        ("current-context: a", "b", "cannot be used"),
    ],
)
async def test_invalid_files(tmp_path: Path, text: str, context: str | None, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ClusterError, match=message) as error:
        await load_context(str(path), context, {})
    assert str(path) in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("cluster", "host"),
    [
        ({"server": "10.0.0.1:6443"}, "http://10.0.0.1:6443"),
        ({"server": "localhost"}, "http://localhost"),
        ({"server": "10.0.0.1:6443", "insecure-skip-tls-verify": True}, "https://10.0.0.1:6443"),
        ({"server": "https://10.0.0.1:6443/prefix"}, "https://10.0.0.1:6443/prefix"),
    ],
)
async def test_a_server_without_a_scheme_is_completed_as_by_kubectl(
    tmp_path: Path, cluster: dict[str, Any], host: str
) -> None:
    path = a_file(tmp_path / "config", "a")
    text = path.read_text()
    path.write_text(yaml.safe_dump({**yaml.safe_load(text), "clusters": [{"name": "a", "cluster": cluster}]}))
    before = path.read_bytes()
    assert (await load_context(str(path), None, {})).configuration.host == host
    assert path.read_bytes() == before


@pytest.mark.parametrize("server", [None, "", 6443, "ftp://10.0.0.1", "https://", "http://[::1"])
async def test_an_invalid_server_is_named(tmp_path: Path, server: Any) -> None:
    path = a_file(tmp_path / "config", "a")
    config = {**yaml.safe_load(path.read_text()), "clusters": [{"name": "a", "cluster": {"server": server}}]}
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ClusterError, match=r"cannot be used: .*server.* such as https://10\.0\.0\.1:6443"):
        await load_context(str(path), None, {})


async def test_missing_file() -> None:
    with pytest.raises(ClusterError, match="kubeconfig /none is not a file: check --kubeconfig"):
        await load_context("/none", None, {})


MANAGER = [
    pytest.param("a: [", "cannot be used: ", id="no-YAML"),
    pytest.param("just text", "cannot be used: ", id="no-mapping"),
    pytest.param("kind: Config", "cannot be used: ", id="empty"),
    pytest.param(None, "is not a file: check --kubeconfig or KUBECONFIG", id="missing"),
]


@pytest.mark.parametrize(("text", "message"), MANAGER)
async def test_invalid_files_for_a_manager(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterError) as error:
        await load_configuration(str(path))
    assert error.value.message.startswith(f"kubeconfig {path} ")
    assert message in error.value.message and "\n" not in error.value.message


async def test_a_manager_uses_the_current_context(tmp_path: Path) -> None:
    configuration = await load_configuration(str(a_file(tmp_path / "config", "a", "b", current="b")))
    assert configuration.host == "https://b"
    token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    assert token == "Bearer token-of-b"


async def test_a_manager_without_any_cluster() -> None:
    with pytest.raises(
        ClusterError, match=r"not running in a pod .* and no --kubeconfig or KUBECONFIG is set"
    ):
        await load_configuration(None)


def test_the_contexts_of_all_files(tmp_path: Path) -> None:
    files = [a_file(tmp_path / "one", "a", "b"), a_file(tmp_path / "two", "b", "c"), tmp_path / "none"]
    environment = {"KUBECONFIG": os.pathsep.join(map(str, files))}
    assert context_names(None, environment) == ["a", "b", "c"]
    assert context_names(str(files[1]), environment) == ["b", "c"]
    (tmp_path / "empty").touch()
    assert context_names(str(tmp_path / "empty"), {}) == context_names(None, {}) == []


@pytest.mark.parametrize("text", ["a: [", "contexts: [1]", "contexts: [{}]", "[1]"])
def test_contexts_of_a_broken_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ClusterError, match="cannot be used"):
        context_names(str(path), {})
