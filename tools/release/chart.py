"""What becomes of the chart in a release?

In: the chart, helm. Out: its package; and, rendered, the manifests and kustomize components in dist/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.localcluster.recipe import KUBERNETES_VERSION
from tools.release.kustomize import BASE, COMPONENTS, KUSTOMIZATION, component, kustomization
from tools.release.manifests import NAMESPACE, Object, parsed, plain, rendered, split
from tools.release.source import ReleaseError, run

MANIFESTS = "manifests.yaml"
KUSTOMIZE = "kustomize"


@dataclass(frozen=True)
class Chart:
    """The chart in a directory, and the helm that reads it."""

    directory: Path
    helm: Path

    def objects(self, values: Mapping[str, Any]) -> list[Object]:
        """The plain manifests for values, by dotted path. Raises ReleaseError where helm refuses them."""
        given = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
        where = [f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES_VERSION}"]
        text = run([self.helm, "template", "lws", self.directory, *where, *given], self.directory)
        return plain(parsed(text))

    def package(self, target: Path, version: str) -> Path:
        """The package that `helm install` and `helm push` take. Raises ReleaseError for another version."""
        run([self.helm, "package", self.directory, "--destination", target], self.directory)
        made = target / f"lws-{version}.tgz"
        if not made.is_file():
            raise ReleaseError(f"{self.directory}: Chart.yaml does not say version {version}")
        return made.rename(target / f"lws-chart-{version}.tgz")


def write_manifests(chart: Chart, target: Path) -> None:
    """Write manifests.yaml, and the same as a base for kustomize with a component for each larger choice."""
    every = chart.objects({})
    (target / MANIFESTS).write_text(rendered(every), encoding="utf-8")
    definitions, others = split(every)
    base = {
        "definitions.yaml": rendered(definitions),
        "manager.yaml": rendered(others),
        KUSTOMIZATION: kustomization(["definitions.yaml", "manager.yaml"]),
    }
    _write(target / KUSTOMIZE / BASE, base)
    _write(target / KUSTOMIZE, {KUSTOMIZATION: kustomization([BASE])})
    # The definitions are the same for all of these, and large.
    small = {"crds.enabled": False}
    for name, each in COMPONENTS.items():
        before, after = (chart.objects({**small, **values}) for values in (each.before, each.after))
        _write(target / KUSTOMIZE / "components" / name, component(before, after))


def _write(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
