"""`lws manager` reports invalid flags, configurations and clusters in one line."""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from lws.cli.commands import manager as module
from lws.cli.commands.manager import as_double_dashed, manager
from lws.cli.main import main

Run = Callable[..., tuple[object, str]]

HEADER = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"
NOBODY = "https://127.0.0.1:1"
KUBECONFIG = f"""
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "{NOBODY}", insecure-skip-tls-verify: true}}}}]
users: [{{name: me, user: {{token: secret}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
"""


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Restore the root logger, which the manager takes over."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture(autouse=True)
def _garbage_as_it_was() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `lws` with arguments and returns exit code and stderr."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/lws"])
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("ENABLE_WEBHOOKS", raising=False)

    def call(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["manager", *arguments])
        captured = capfd.readouterr()
        assert captured.out == ""
        return ended.value.code, captured.err

    return call


@pytest.fixture
def no_ports(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Return the flags of a manager that opens no port."""
    monkeypatch.setenv("ENABLE_WEBHOOKS", "false")
    return "--metrics-bind-address=0", "--health-probe-bind-address=0"


def is_one_line(message: str) -> bool:
    return message.count("\n") == 1 and message.endswith("\n")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(["--no-such-flag=1"], "--no-such-flag", id="unknown"),
        pytest.param(["--kube-api-qps=fast"], "--kube-api-qps", id="not a number"),
        pytest.param(["--kube-api-burst=1.5"], "--kube-api-burst", id="not an integer"),
        pytest.param(["--leader-elect=perhaps"], "--leader-elect", id="not a boolean"),
        pytest.param(["--leader-elect="], "--leader-elect", id="an empty boolean"),
        pytest.param(["--zap-log-level=loud"], "--zap-log-level", id="not a level"),
        pytest.param(["--zap-encoder=xml"], "--zap-encoder", id="not an encoder"),
        pytest.param(["manager"], "manager", id="an argument too many"),
    ],
)
def test_a_malformed_flag(flags: list[str], expected: str, run: Run) -> None:
    code, message = run(*flags)
    assert code == 2
    assert expected in message and is_one_line(message)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(["--leader-elect-lease-duration=soon"], "-lease-duration: must be", id="not a duration"),
        pytest.param(
            ["--leader-elect-renew-deadline=20s"], "must be shorter than leaseDuration", id="too late"
        ),
        pytest.param(["--metrics-bind-address=everywhere"], "--metrics-bind-address: ", id="not an address"),
        pytest.param(["--leader-elect-resource-lock=endpoints"], "must be leases", id="another lock"),
    ],
)
def test_a_flag_with_an_invalid_value(flags: list[str], expected: str, run: Run) -> None:
    code, message = run(*flags)
    assert code == 1
    assert expected in message and is_one_line(message)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(f"{HEADER}webhooks: {{port: 1}}", "webhooks: no such key; did you mean", id="key"),
        pytest.param(f"{HEADER}webhook: {{prot: 1}}", "did you mean port?", id="key in a section"),
        pytest.param(f"{HEADER}webhook: {{port: '1'}}", "webhook.port: must be a whole number", id="type"),
        pytest.param(f"{HEADER}webhook: {{port: 70000}}", "webhook.port: ", id="range"),
        pytest.param("kind: Configuration", "apiVersion: is required", id="no version"),
        pytest.param(f"{HEADER}webhook: {{", ":3: ", id="no YAML"),
        pytest.param("", "is empty", id="nothing"),
    ],
)
def test_an_invalid_configuration(content: str, expected: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "manager.yaml"
    path.write_text(content)
    code, message = run(f"--config={path}")
    assert code == 1
    assert str(path) in message and expected in message and is_one_line(message)


def test_each_error_is_reported_on_a_separate_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "manager.yaml"
    path.write_text(f"{HEADER}webhook: {{prot: 1, port: 70000}}")
    code, message = run(f"--config={path}")
    assert code == 1
    assert len(message.splitlines()) == 2


def test_a_missing_configuration(run: Run, tmp_path: Path) -> None:
    code, message = run(f"--config={tmp_path / 'missing.yaml'}")
    assert code == 1
    assert "check --config" in message and is_one_line(message)


@pytest.mark.parametrize("setting", ["webhook.port", "health.healthProbeBindAddress", "metrics.bindAddress"])
def test_a_port_in_use(
    setting: str, run: Run, no_ports: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manager.yaml"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        path.write_text(f"{HEADER}webhook: {{host: 127.0.0.1, port: {port}}}")
        flags = {
            "health.healthProbeBindAddress": f"--health-probe-bind-address=127.0.0.1:{port}",
            "metrics.bindAddress": f"--metrics-bind-address=127.0.0.1:{port}",
        }
        if setting == "webhook.port":
            monkeypatch.delenv("ENABLE_WEBHOOKS")
        code, message = run(f"--config={path}", *no_ports, *filter(None, [flags.get(setting)]))
    assert code == 1
    assert message.startswith(f"lws: {setting}: cannot listen on 127.0.0.1 port {port}: ")
    assert is_one_line(message)


def test_imported_objects_are_excluded_from_garbage_collection(
    run: Run, no_ports: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[bool] = []
    # Counting the frozen objects takes longer than freezing them.
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("kopf" in sys.modules))
    gc.set_threshold(700)
    run(*no_ports)
    assert frozen == [True] and gc.get_threshold()[0] > 700


def test_no_cluster_is_configured(run: Run, no_ports: tuple[str, ...]) -> None:
    code, message = run(*no_ports)
    assert code == 1
    assert "no --kubeconfig or KUBECONFIG" in message and is_one_line(message)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no YAML"),
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param("kind: Config", id="no context"),
        pytest.param(KUBECONFIG.replace("-context: here", "-context: there"), id="missing context"),
        pytest.param(KUBECONFIG.replace("cluster: here", "cluster: there"), id="missing cluster"),
        pytest.param(b"\xff\xfe", id="not text"),
    ],
)
def test_an_invalid_kubeconfig(
    content: str | bytes, run: Run, no_ports: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, message = run(f"--kubeconfig={path}", *no_ports)
    assert code == 1
    assert str(path) in message and is_one_line(message)


@pytest.mark.parametrize("kind", ["missing", "a directory"])
def test_a_kubeconfig_that_is_not_a_file(
    kind: str, run: Run, no_ports: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path if kind == "a directory" else tmp_path / "missing"
    code, message = run(f"--kubeconfig={path}", *no_ports)
    assert code == 1
    assert f"{path} is not a file: check --kubeconfig or KUBECONFIG" in message and is_one_line(message)


PARAMS = [
    click.Option(["--config"]),
    click.Option(["--leader-elect"], type=bool),
    click.Option(["--zap-devel"], type=bool),
    click.Option(["--kube-api-qps"], type=float),
    click.Option(["-v", "--verbose"], is_flag=True),
]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["--config=x"], ["--config=x"], id="two-dashes"),
        pytest.param(["-config=x"], ["--config=x"], id="one-dash"),
        pytest.param(["-config", "x"], ["--config", "x"], id="one-dash-and-a-value"),
        pytest.param(["--leader-elect"], ["--leader-elect=true"], id="bare-boolean"),
        pytest.param(["-leader-elect"], ["--leader-elect=true"], id="bare-boolean-with-one-dash"),
        pytest.param(["--leader-elect=false"], ["--leader-elect=false"], id="boolean-with-value"),
        pytest.param(["-leader-elect=false"], ["--leader-elect=false"], id="boolean-with-value-and-one-dash"),
        pytest.param(
            ["-leader-elect", "-config", "x"],
            ["--leader-elect=true", "--config", "x"],
            id="booleans-take-no-value",
        ),
        pytest.param(
            ["-leader-elect", "false"], ["--leader-elect=true", "false"], id="values-of-flags-are-not-changed"
        ),
        pytest.param(["-config", "-x.yaml"], ["--config", "-x.yaml"], id="a-value-that-looks-like-a-flag"),
        pytest.param(["--kube-api-qps", "-1.5"], ["--kube-api-qps", "-1.5"], id="a-negative-value"),
        pytest.param(
            ["-config", "-leader-elect", "-zap-devel"],
            ["--config", "-leader-elect", "--zap-devel=true"],
            id="a-value-that-is-called-like-a-flag",
        ),
        pytest.param(["-config"], ["--config"], id="a-value-is-missing"),
        pytest.param(["-unknown", "-config=x"], ["--unknown", "--config=x"], id="unknown-flags"),
        pytest.param(["-h"], ["-h"], id="short-flag"),
        pytest.param(["-help"], ["--help"], id="help"),
        pytest.param(["--", "-config"], ["--", "-config"], id="nothing-after-two-dashes"),
        pytest.param(
            ["-config=x", "--", "-a", "-leader-elect"], ["--config=x", "--", "-a", "-leader-elect"], id="rest"
        ),
        pytest.param(["-"], ["-"], id="a-dash"),
        pytest.param(["manager", "-config=x"], ["manager", "--config=x"], id="behind-a-subcommand"),
    ],
)
def test_spellings_of_flags(arguments: list[str], expected: list[str]) -> None:
    assert as_double_dashed(arguments, PARAMS) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["--leader-elect=false", "--zap-devel=false", "--zap-log-level=2", "--config=/c.yaml"],
        ["-leader-elect=false", "-zap-devel=false", "-zap-log-level=2", "-config=/c.yaml"],
        ["-leader-elect=false", "-zap-devel=false", "-zap-log-level", "2", "-config", "/c.yaml"],
        ["--leader-elect=F", "--zap-devel=0", "--zap-log-level", "2", "--config", "/c.yaml"],
    ],
    ids=["two-dashes", "one-dash", "separate-values", "other-booleans"],
)
def test_arguments_of_upstream_deployments_are_accepted(arguments: list[str]) -> None:
    context = manager.make_context("manager", as_double_dashed(arguments, manager.params))
    assert context.params["leader_elect"] is False and context.params["zap_devel"] is False
    assert (context.params["zap_log_level"], context.params["config"]) == ("2", "/c.yaml")


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    former, files = gc.get_threshold(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    gc.unfreeze()
    gc.set_threshold(*former)


def test_garbage_collection_is_less_frequent_and_skips_imported_objects() -> None:
    module.before_imports()
    module.after_imports()
    assert gc.get_threshold()[0] == 10_000
    assert gc.get_freeze_count() > 1000


@pytest.mark.parametrize("missing", [OSError("no such library"), AttributeError("no mallopt")])
def test_c_libraries_without_mallopt_are_supported(
    missing: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: None) -> None:
        raise missing

    monkeypatch.setattr(ctypes, "CDLL", load)
    module.before_imports()
    assert gc.get_threshold()[0] == 10_000, "the rest is set all the same"


def test_the_limit_of_open_files_is_raised_to_the_maximum() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
    module.before_imports()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
