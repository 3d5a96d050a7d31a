"""Read the previous product: the newest commit with other code, or the commit $UPGRADE_FROM.

It is read from the repository of the tests. Without a history, the tests are skipped with a reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest

from test.harness.product import QUICK_LEASE
from tools.deployment import NAMESPACE, Deployment, ManagerProcess

ROOT = Path(__file__).parents[3]
PRODUCT = ("api", "charts", "lws")


@dataclass(frozen=True)
class Previous:
    """The files of one commit."""

    commit: str
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return variables with which Python imports this product, wherever it is started."""
        places = os.pathsep.join([str(self.directory), str(self.directory / "api")])
        return {"PYTHONPATH": places, "PYTHONSAFEPATH": "1"}

    @property
    def chart(self) -> Path:
        return self.directory / "charts" / "lws"

    def start(self, deployment: Deployment) -> ManagerProcess:
        """Start its manager, and wait until it answers webhooks and is ready."""
        command = [sys.executable, "-c", "import lws, lws_api; print(lws.__file__, lws_api.__file__)"]
        result = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=True
        )
        assert result.stdout.count(str(self.directory)) == 2, result.stdout
        manager = deployment.manager(*QUICK_LEASE, environment=self.environment).start()
        deployment.point_webhooks(manager)
        return manager.wait_ready()


def upgrade(deployment: Deployment, chart: Path) -> None:
    """Run `helm upgrade` of the release to that chart, while no manager runs."""
    # The webhooks point at a process of this host, which a merge of two charts does not know.
    for kind in ("mutating", "validating"):
        name = f"lws-{kind}-webhook-configuration"
        deployment.access.kubectl("delete", f"{kind}webhookconfiguration", name)
    deployment.access.helm("upgrade", deployment.release, str(chart), "-n", NAMESPACE)


def previous_product(directory: Path) -> Previous:
    """Return the files of the newest commit with another product than the working tree."""
    named = os.environ.get("UPGRADE_FROM")
    try:
        commits = [named] if named else _git("rev-list", "HEAD", "--", *PRODUCT).decode().split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the history of the repository: this is no checkout of git, or git is missing")
    for commit in commits:
        if _git("diff", "--name-only", commit, "--", *PRODUCT):
            archive = _git("archive", "--format=tar", commit, *PRODUCT)
            with tarfile.open(fileobj=BytesIO(archive)) as tar:
                tar.extractall(directory, filter="data")
            return Previous(commit, directory)
    is_shallow = _git("rev-parse", "--is-shallow-repository").decode().strip() == "true"
    hint = ": the clone is shallow, fetch more with `git fetch --unshallow`" if is_shallow else ""
    pytest.skip(f"needs a commit with an earlier product, and there is none{hint}")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout
