"""Commands also run on macOS and Windows: they need nothing that exists only on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import pytest
import yaml

from lws.cli.commands.manager import manager
from lws.cli.main import _write_what_can_be_written

REPOSITORY = Path(__file__).resolve().parents[4]

# Other packages have separate files for each system, so they are loaded for the system of the test.
SCRIPT = """
import asyncio, importlib, os, pkgutil, signal, subprocess, sys, tempfile, threading
import aiohttp.web, click, cryptography, deepdiff, kopf, kubernetes.aio.client, orjson
import kubernetes.aio.config.kube_config, prometheus_client, pydantic, rich.console, yaml

sys.platform = sys.argv[1]
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "uvloop"):
    sys.modules[name] = None
missing = {os: ["memfd_create", "fork", "getuid", "pipe2"], signal: ["SIGHUP", "SIGKILL", "SIGCONT"]}
for module, names in missing.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

import lws, lws_api
for package in (lws, lws_api):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if each.name != "lws.__main__":
            importlib.import_module(each.name)

from lws.runtime.certificates.serving_certificate import Certificates, renewed
from lws.config import TlsSettings
from lws.runtime.endpoints.server_tls import ServerTls
from datetime import UTC, datetime
async def serve():
    pair = renewed(Certificates(), ("localhost",), datetime.now(UTC))[0].server
    ServerTls(TlsSettings()).install(pair.certificate, pair.key)
asyncio.run(serve())

from lws.cli.commands import manager
manager.before_imports()
from lws.cli.main import main
for command in (["key", "-f", sys.argv[2]], ["status", "a", "--kubeconfig", "none"]):
    try:
        main(command)
    except SystemExit as end:
        print(end.code)
"""


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_commands_do_not_need_linux(platform: str) -> None:
    example = next(REPOSITORY.glob("examples/*.yaml"))
    command = [sys.executable, "-c", SCRIPT, platform, str(example)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.splitlines() == ["error: kubeconfig none is not a file: check --kubeconfig"]
    *keys, key_code, status_code = done.stdout.split()
    assert keys and (key_code, status_code) == ("0", "1")


def test_the_manager_says_that_it_does_not_run_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(click.ClickException, match="the manager runs on Linux and macOS only"):
        manager.main([], standalone_mode=False)


@pytest.mark.parametrize(("is_terminal", "arrow"), [(True, b"?"), (False, "→".encode())])
def test_unencodable_characters_are_no_error(
    is_terminal: bool, arrow: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = BytesIO()
    monkeypatch.setattr(written, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="cp1252"))
    _write_what_can_be_written()
    print("a → b", flush=True)
    assert written.getvalue().split() == [b"a", arrow, b"b"]


def test_files_and_pipes_are_utf_8_regardless_of_the_locale(tmp_path: Path) -> None:
    """This includes a manifest, a kubeconfig and the output."""
    example = (REPOSITORY / "examples" / "quickstart.yaml").read_text().replace("image: ", "image: é", 1)
    (tmp_path / "set.yaml").write_bytes(example.encode())
    context = {"name": "é", "context": {"cluster": "é", "user": "é", "namespace": "é"}}
    content = {
        "current-context": "é",
        "contexts": [context],
        "clusters": [{"name": "é", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "é", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_bytes(yaml.safe_dump(content, allow_unicode=True).encode())
    commands = (["key", "--data", "-f", "set.yaml"], ["status"])
    printed = []
    for encoding in ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        environment = {**os.environ, **encoding, "KUBECONFIG": str(tmp_path / "config")}
        done = [
            subprocess.run(
                [sys.executable, "-m", "lws", *command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                check=False,
            )
            for command in commands
        ]
        printed.append([(process.stdout, process.stderr) for process in done])
    assert printed[0] == printed[1]
    assert "é".encode() in printed[0][0][0]
    assert b"https://127.0.0.1:1" in printed[0][1][1]
