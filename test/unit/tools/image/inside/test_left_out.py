"""Modules that the image leaves out cannot be imported here, and the removed files belong to them.

That the product does not need them is shown by test/unit/conftest.py: every unit test runs without them.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import kubernetes
import pytest

from tools.image.inside.left_out import KEPT_MODULES, left_out, main, unneeded

ROOT = Path(__file__).resolve().parents[5]
SITE_PACKAGES = Path(kubernetes.__file__).parent.parent


def test_unit_tests_run_without_the_omitted_modules() -> None:
    with pytest.raises(ImportError, match="the image does without"):
        importlib.import_module("kubernetes.client.models.v1_pod")


@pytest.mark.parametrize(
    ("module", "out"),
    [
        ("kubernetes.client.models.v1_pod", True),
        ("kubernetes.client.models.v1_object_meta", False),
        ("kubernetes.client.models", False),
        ("kubernetes.aio.client.api.core_v1_api", True),
        ("kubernetes.aio.client.api_client", False),
        ("lws.runtime.manager", False),
    ],
)
def test_models_and_calls_of_the_client_are_omitted(module: str, out: bool) -> None:
    assert left_out(module) is out


def test_every_thinned_package_and_kept_module_exists() -> None:
    """If the client renamed them, the image would contain everything, or lack required modules."""
    folders = [Path(SITE_PACKAGES, *package.split(".")) for package in KEPT_MODULES]
    assert [path for path in folders if not (path / "__init__.py").exists()] == []
    paths = [
        path / f"{name}.py"
        for path, names in zip(folders, KEPT_MODULES.values(), strict=True)
        for name in names
    ]
    assert [path for path in paths if not path.exists()] == []


def test_most_of_the_client_is_omitted() -> None:
    out = [path for path in unneeded(SITE_PACKAGES) if path.suffix == ".py"]
    assert out and all("kubernetes" in path.parts for path in out)
    assert sum(path.stat().st_size for path in out) > 50_000_000


def test_unneeded_files_are_removed_from_an_environment(tmp_path: Path) -> None:
    site, programs = tmp_path / "lib/python3.13/site-packages", tmp_path / "bin"
    models = site / "kubernetes/client/models"
    stay = [models / "__init__.py", site / "lws/cli.py", programs / "lws", programs / "python3"]
    go = [models / "v1_pod.py", site / "uvloop/loop.pyx", programs / "activate", programs / "pygmentize"]
    for path in stay + go:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    main(tmp_path)
    assert [path for path in stay if not path.exists()] == []
    assert [path for path in go if path.exists()] == []


COMMANDS = """
import contextlib, importlib, io, pkgutil, sys
from test.unit.without import keep_out
keep_out()
import lws, lws_api
from lws.cli.main import COMMANDS, main
for package in (lws, lws_api):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if each.name != "lws.__main__":
            importlib.import_module(each.name)
for name in COMMANDS:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main([name, "--help"])
"""


def test_every_module_and_command_starts_without_the_omitted_modules() -> None:
    done = subprocess.run([sys.executable, "-c", COMMANDS], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
