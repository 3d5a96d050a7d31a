"""lws.runtime.client.kubeconfig: credentials, their lifetime, and how they are renewed."""

from __future__ import annotations

import base64
import json
import logging
import pty
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config

from lws.runtime.client.kubeconfig import load_configuration
from lws.runtime.client.transport import Renewal
from lws.runtime.errors import ClusterError

API = "client.authentication.k8s.io/v1"


def kubeconfig(directory: Path, user: dict[str, Any], **cluster: Any) -> str:
    path = directory / "config"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://api.test:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


class Plugin:
    """A program that prints what the test wrote last, and counts its runs."""

    def __init__(self, directory: Path) -> None:
        self._answer, self._runs = directory / "answer", directory / "runs"
        self._program = directory / "plugin.py"
        self._program.write_text(
            f"import sys\nopen({str(self._runs)!r}, 'a').write('.')\n"
            f"text = open({str(self._answer)!r}).read()\n"
            "sys.exit('no ticket') if text == 'fail' else print(text)\n"
        )

    @property
    def user(self) -> dict[str, Any]:
        return {"exec": {"apiVersion": API, "command": sys.executable, "args": ["-S", str(self._program)]}}

    @property
    def runs(self) -> int:
        return len(self._runs.read_text()) if self._runs.exists() else 0

    def will(self, seconds: float | None = None, **status: str) -> None:
        """Set the next answer; the credentials expire in `seconds`."""
        if seconds is not None:
            end = datetime.now(UTC) + timedelta(seconds=seconds)
            status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
        answer = {"apiVersion": API, "kind": "ExecCredential", "status": status}
        self._answer.write_text(json.dumps(answer))

    def fail(self) -> None:
        """Exit with 1 from now on."""
        self._answer.write_text("fail")


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


class Clock:
    """Seconds that the test adds to the real time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def token_of(configuration: Configuration) -> str | None:
    """Return the token of the next request."""
    return await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")


async def renewed(configuration: Configuration) -> None:
    """Wait for the renewal that a request has started."""
    renewal: Any = configuration.refresh_api_key_hook
    if renewal._running is not None:
        await renewal._running


def at(configuration: Configuration, clock: Clock) -> None:
    """Let the test advance the time from the moment of loading on."""
    renewal: Any = configuration.refresh_api_key_hook
    offset = renewal._clock()
    renewal._clock = lambda: offset + clock.now


async def test_a_plugin_runs_again_before_its_token_expires(tmp_path: Path, plugin: Plugin) -> None:
    clock = Clock()
    plugin.will(3600, token="one")
    configuration = await load_configuration(kubeconfig(tmp_path, plugin.user))
    at(configuration, clock)
    assert await token_of(configuration) == "Bearer one"
    plugin.will(3600, token="two")
    clock.now = 3000.0
    assert await token_of(configuration) == "Bearer one" and plugin.runs == 1
    clock.now = 3400.0
    assert await token_of(configuration) == "Bearer one", "the token is still valid, so no request waits"
    await renewed(configuration)
    assert await token_of(configuration) == "Bearer two" and plugin.runs == 2


async def test_requests_wait_for_a_new_token_after_expiry(tmp_path: Path, plugin: Plugin) -> None:
    clock = Clock()
    plugin.will(60, token="one")
    configuration = await load_configuration(kubeconfig(tmp_path, plugin.user))
    at(configuration, clock)
    plugin.will(60, token="two")
    clock.now = 61.0
    assert await token_of(configuration) == "Bearer two"


async def test_a_plugin_without_expiry_runs_again_only_after_a_401(tmp_path: Path, plugin: Plugin) -> None:
    clock = Clock()
    plugin.will(token="one")
    configuration = await load_configuration(kubeconfig(tmp_path, plugin.user))
    at(configuration, clock)
    plugin.will(token="two")
    clock.now = 1e6
    assert await token_of(configuration) == "Bearer one" and plugin.runs == 1
    renewal = configuration.refresh_api_key_hook
    assert isinstance(renewal, Renewal)
    await renewal.after_refusal(configuration)
    assert await token_of(configuration) == "Bearer two"
    await renewal.after_refusal(configuration)
    assert plugin.runs == 2, "not for each of many refusals"


async def test_a_plugin_may_give_certificates(tmp_path: Path, plugin: Plugin) -> None:
    clock = Clock()
    plugin.will(3600, clientCertificateData="certificate one", clientKeyData="key one")
    configuration = await load_configuration(kubeconfig(tmp_path, plugin.user))
    at(configuration, clock)
    assert configuration.cert_file is not None and configuration.key_file is not None
    assert Path(configuration.cert_file).read_text() == "certificate one"
    plugin.will(3600, clientCertificateData="certificate two", clientKeyData="key two")
    clock.now = 3601.0
    await token_of(configuration)
    assert Path(configuration.cert_file).read_text() == "certificate two"
    assert Path(configuration.key_file).read_text() == "key two"


async def test_messages_of_a_plugin_are_shown_to_the_user(tmp_path: Path, plugin: Plugin) -> None:
    plugin.fail()
    with pytest.raises(ClusterError, match=r"cannot be used: exec: process returned 1\. .*no ticket"):
        await load_configuration(kubeconfig(tmp_path, plugin.user))
    plugin.will()
    with pytest.raises(ClusterError, match="returned neither a token nor a certificate"):
        await load_configuration(kubeconfig(tmp_path, plugin.user))
    plugin.will(token="")
    with pytest.raises(ClusterError, match="returned neither a token nor a certificate"):
        await load_configuration(kubeconfig(tmp_path, plugin.user))
    user = {"exec": {"apiVersion": API, "command": "no-such-plugin", "installHint": "get it at example.com"}}
    with pytest.raises(ClusterError, match=r"exec: no-such-plugin cannot be run: .*: get it at example.com"):
        await load_configuration(kubeconfig(tmp_path, user))


async def test_provide_cluster_info(tmp_path: Path) -> None:
    plugin = tmp_path / "bin" / "plugin"
    plugin.parent.mkdir()
    answer = {"apiVersion": API, "kind": "ExecCredential", "status": {"token": "t"}}
    plugin.write_text(
        f"#!{sys.executable} -S\nimport os, sys\n"
        f"info = os.environ['KUBERNETES_EXEC_INFO']\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(info + sys.stdin.read())\n"
        f"print({json.dumps(answer)!r})\n"
    )
    plugin.chmod(0o755)
    (tmp_path / "ca.crt").write_text("authority")
    user = {"exec": {"apiVersion": API, "command": "bin/plugin", "provideClusterInfo": True}}
    cluster: dict[str, Any] = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    configuration = await load_configuration(kubeconfig(tmp_path, user, **cluster))
    assert await token_of(configuration) == "Bearer t", "a relative command lies beside the kubeconfig"
    info = json.loads((tmp_path / "told").read_text())
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://api.test:6443",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": base64.b64encode(b"authority").decode(),
            "config": {"audience": "a"},
        },
    }
    del user["exec"]["provideClusterInfo"]
    await load_configuration(kubeconfig(tmp_path, user, **cluster))
    assert json.loads((tmp_path / "told").read_text())["spec"] == {"interactive": False}


async def test_an_interactive_plugin_uses_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = "import sys; print('code: 1234', file=sys.stderr); sys.exit(1)"
    user = {"exec": {"apiVersion": API, "command": sys.executable, "args": ["-S", "-c", program]}}
    with pytest.raises(ClusterError, match=r"process returned 1\. code: 1234"):
        await load_configuration(kubeconfig(tmp_path, user))
    assert capfd.readouterr().err == ""
    theirs, ours = pty.openpty()
    with open(theirs), open(ours) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(ClusterError, match=r"process returned 1$"):
            await load_configuration(kubeconfig(tmp_path, user))
    assert capfd.readouterr().err == "code: 1234\n"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        pytest.param({"as-groups": ["a"]}, "require a user to impersonate", id="groups-alone"),
        pytest.param({"as": 7}, "as: 7 is not a string", id="number"),
        # What YAML makes of the unquoted names `no` and `0`.
        pytest.param({"as": False}, "as: False is not a string", id="no"),
        pytest.param({"as": 0}, "as: 0 is not a string", id="zero"),
        pytest.param({"as": "a", "as-uid": 0}, "as-uid: 0 is not a string", id="uid"),
        pytest.param({"as": "a", "as-groups": False}, "as-groups must be a list", id="groups-no"),
        pytest.param({"as": "a", "as-user-extra": []}, "as-user-extra a map", id="extra-list"),
        # The API server strips spaces, which leaves another name or none.
        pytest.param({"as": " "}, "as: ' ' begins or ends with a space", id="space"),
        pytest.param({"as": "a", "as-groups": ["b "]}, "as-groups: 'b ' begins or", id="space-at-the-end"),
        pytest.param({"as": "a\r\nX-Remote-User: admin"}, "is not a string of one line", id="two-lines"),
        pytest.param({"as": "a", "as-groups": "system:masters"}, "as-groups must be a list", id="no-list"),
        pytest.param({"as": "a", "as-user-extra": {"k": "v"}}, "as-user-extra: k is not a list", id="extra"),
    ],
)
async def test_impersonation_that_cannot_be_sent_is_refused(
    tmp_path: Path, user: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        await load_configuration(kubeconfig(tmp_path, {"token": "one", **user}))


async def test_a_failing_plugin_does_not_invalidate_a_valid_token(
    tmp_path: Path, plugin: Plugin, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    plugin.will(3600, token="one")
    configuration = await load_configuration(kubeconfig(tmp_path, plugin.user))
    at(configuration, clock)
    plugin.fail()
    clock.now = 3400.0
    await token_of(configuration)
    await renewed(configuration)
    assert await token_of(configuration) == "Bearer one"
    assert "credentials for the API server cannot be renewed: exec: process returned 1" in caplog.text


async def test_the_file_of_a_token_is_read_again(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "token").write_text("one")
    configuration = await load_configuration(kubeconfig(tmp_path, {"tokenFile": "token"}))
    at(configuration, clock)
    (tmp_path / "token").write_text("two")
    assert await token_of(configuration) == "Bearer one"
    clock.now = 61.0
    await token_of(configuration)
    await renewed(configuration)
    assert await token_of(configuration) == "Bearer two"


def id_token(seconds: float) -> str:
    claims = {"exp": int(datetime.now(UTC).timestamp() + seconds)}
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{middle}.signature"


@pytest.mark.filterwarnings("ignore:.*utcfromtimestamp:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*utcnow:DeprecationWarning")
async def test_a_refresh_token_is_stored_as_kubectl_stores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that rotates refresh tokens no longer accepts the former one, from kubectl either."""
    fresh = id_token(3600)

    async def refresh_token(self: Any, token: str) -> dict[str, str]:
        assert token == "refresh one"
        return {"id_token": fresh, "refresh_token": "refresh two"}

    monkeypatch.setattr("kubernetes.aio.config.openid.OpenIDRequestor.refresh_token", refresh_token)
    names = {"client-id": "lws", "client-secret": "s", "idp-issuer-url": "https://idp.test"}
    provider = {"config": {**names, "id-token": id_token(-10), "refresh-token": "refresh one"}}
    path = kubeconfig(tmp_path, {"auth-provider": {"name": "oidc", **provider}})
    configuration = await load_configuration(path)
    assert await token_of(configuration) == f"Bearer {fresh}"
    stored = yaml.safe_load(Path(path).read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert (stored["id-token"], stored["refresh-token"]) == (fresh, "refresh two")


async def test_static_credentials_are_not_reloaded(tmp_path: Path) -> None:
    configuration = await load_configuration(kubeconfig(tmp_path, {"token": "one"}))
    assert await token_of(configuration) == "Bearer one"
    assert configuration.refresh_api_key_hook is None


async def test_proxy_and_tls_name_of_the_kubeconfig(tmp_path: Path) -> None:
    named = {"proxy-url": "http://proxy.test:3128", "tls-server-name": "kubernetes"}
    configuration = await load_configuration(kubeconfig(tmp_path, {"token": "one"}, **named))
    assert configuration.proxy == "http://proxy.test:3128"
    assert configuration.tls_server_name == "kubernetes"


async def test_the_token_of_a_pod_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    token, authority, clock = tmp_path / "token", tmp_path / "ca.crt", Clock()
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token.write_text("one")
    authority.write_text("certificate")
    configuration = await load_configuration(None)
    at(configuration, clock)
    token.unlink()
    clock.now = 61.0
    assert await token_of(configuration) == "bearer one"
    await renewed(configuration)
    assert await token_of(configuration) == "bearer one", "the loaded credentials are still valid"
    assert (
        "credentials for the API server cannot be renewed: Service token file does not exist" in caplog.text
    )
    token.write_text("two")
    clock.now = 70.0
    await token_of(configuration)
    await renewed(configuration)
    assert await token_of(configuration) == "bearer two"
