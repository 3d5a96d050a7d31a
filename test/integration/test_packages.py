"""The packages install without the repository, and type checkers see their types.

Needs PyPI or a mirror, as configured for pip, but no cluster.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import lws
from tools.release.packages import build, plugin
from tools.release.places import ROOT, commit_time, copy_source

CLIENT = """\
from datetime import timedelta

from lws_api.config.v1alpha1 import Configuration
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import API_VERSION, KIND, LeaderWorkerSet

my_set = LeaderWorkerSet.model_validate(
    {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "a"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": []}}}},
    }
)
size: int | None = my_set.spec.leader_worker_template.size
names: list[str] = sorted(definitions())
print(size, *names)
"""
MISTAKEN = "wrong: str = my_set.spec.leader_worker_template.size\nmy_set.spec.leader_worker_template.sise\n"


@dataclass(frozen=True)
class Sandbox:
    """An empty directory with a virtual environment, without access to the repository."""

    directory: Path

    @property
    def python(self) -> Path:
        return self.directory / "environment" / "bin" / "python"

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command without variables that point at the repository. Its exit code is not checked."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False
        )

    def prints(self, *command: str | Path) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, built from a copy of what a clone has."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    copy_source(source)
    build(source, target, lws.__version__, commit_time())
    return target


def sandbox_with(directory: Path, dist: Path, *names: str) -> Sandbox:
    """Return a place with these packages, and their dependencies in the locked versions."""
    sandbox = Sandbox(directory)
    venv.create(directory / "environment", with_pip=True)
    lock = (ROOT / "requirements" / "runtime.txt").read_text()
    pins = [line.rstrip(" \\") for line in lock.splitlines() if line and not line.startswith(" ")]
    (directory / "constraints.txt").write_text("\n".join(pins))
    install = [sandbox.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    sandbox.prints(*install, "--constraint", "constraints.txt", "--find-links", str(dist), *names)
    return sandbox


@pytest.fixture(scope="module")
def controller(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return sandbox_with(tmp_path_factory.mktemp("controller"), dist, "lws-controller")


@pytest.fixture(scope="module")
def api(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    sandbox = sandbox_with(tmp_path_factory.mktemp("api"), dist, "lws-api")
    (sandbox.directory / "client.py").write_text(CLIENT)
    (sandbox.directory / "mistaken.py").write_text(CLIENT + MISTAKEN)
    return sandbox


def test_each_package_has_a_wheel_and_a_source_distribution(dist: Path) -> None:
    version = lws.__version__
    assert sorted(path.name for path in dist.iterdir()) == [
        f"lws_api-{version}-py3-none-any.whl",
        f"lws_api-{version}.tar.gz",
        f"lws_controller-{version}-py3-none-any.whl",
        f"lws_controller-{version}.tar.gz",
    ]


def test_the_controller_installs_with_its_api_and_its_commands(controller: Sandbox) -> None:
    programs = controller.python.parent
    assert f"v{lws.__version__}" in controller.prints(programs / "lws", "manager", "--version")
    assert "Usage: kubectl lws" in controller.prints(programs / "kubectl-lws", "--help")
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a"},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "a"}]}}}},
    }
    (controller.directory / "set.yaml").write_text(yaml.safe_dump(manifest))
    assert controller.prints(programs / "lws", "key", "-f", "set.yaml").strip()
    controller.prints(controller.python, "-m", "pip", "check")


def test_every_packaged_module_can_be_imported(controller: Sandbox) -> None:
    code = (
        "import importlib, pkgutil, lws, lws_api\n"
        "for package in (lws, lws_api):\n"
        "    for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        each.name == 'lws.__main__' or importlib.import_module(each.name)\n"
        "print(lws.__file__)\n"
    )
    where = controller.prints(controller.python, "-c", code).strip()
    assert Path(where).is_relative_to(controller.directory)


def test_the_api_installs_without_the_controller(api: Sandbox) -> None:
    assert api.prints(api.python, "client.py").split()[:2] == ["2", "DisaggregatedSet"]
    assert "No module named 'lws'" in api.run(api.python, "-c", "import lws").stderr
    packages = api.prints(api.python, "-m", "pip", "list", "--format=freeze").lower()
    assert "kopf" not in packages and "aiohttp" not in packages


def test_the_plugin_installs_its_packages_at_the_first_call(dist: Path, tmp_path: Path) -> None:
    wheels = {path.name: path.read_bytes() for path in dist.glob("*.whl")}
    with tarfile.open(fileobj=io.BytesIO(plugin(wheels, int(commit_time())))) as tar:
        tar.extractall(tmp_path / "store", filter="data")
    sandbox, program = Sandbox(tmp_path), tmp_path / "store" / "kubectl-lws"
    first, second = sandbox.run(program, "--help"), sandbox.run(program, "--help")
    assert first.returncode == 0, first.stderr
    assert "installing its packages, once" in first.stderr and second.stderr == ""
    assert first.stdout == second.stdout and "Usage: kubectl lws" in first.stdout
    # In its own directory, so that krew removes it as well.
    assert (tmp_path / "store" / "environment").is_dir()


def test_a_failed_installation_of_the_plugin_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with tarfile.open(fileobj=io.BytesIO(plugin({}, 0))) as tar:
        tar.extractall(store, filter="data")
    (store / "requirements.txt").write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    nowhere = {**os.environ, "PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([store / "kubectl-lws", "status"], capture_output=True, text=True, env=nowhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert "kubectl lws: its packages could not be installed" in done.stderr.splitlines()[-1]
    assert sorted(path.name for path in store.iterdir()) == ["LICENSE", "kubectl-lws", "requirements.txt"]


def run_mypy(sandbox: Sandbox, file: str) -> subprocess.CompletedProcess[str]:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="]
    return sandbox.run(*mypy, f"--python-executable={sandbox.python}", file)


def test_a_type_checker_sees_the_types(api: Sandbox) -> None:
    assert "Success" in run_mypy(api, "client.py").stdout, run_mypy(api, "client.py").stdout


def test_a_type_checker_sees_mistakes(api: Sandbox) -> None:
    output = run_mypy(api, "mistaken.py").stdout
    assert 'variable has type "str"' in output and '"sise"' in output
