"""Create the artifacts of the chart: its package, plain manifests, and kustomize components.

A component turns the manifests into the manifests that the chart renders for other values.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonpatch
import yaml

from tools.localcluster.recipe import KUBERNETES_VERSION
from tools.release.places import ReleaseError, run

Values = Mapping[str, Any]

BASE = "base"
KUSTOMIZATION = "kustomization.yaml"
_CONFIGURATION = ("ConfigMap", "data", "/data/controller_manager_config.yaml")
_CERTIFICATES: Values = {"enableCertManager": True}
_METRICS: Values = {"enablePrometheus": True}
_POLICY: Values = {"networkPolicy.enabled": True}
Object = dict[str, Any]
NAMESPACE = "lws-system"
DEFINITION = "CustomResourceDefinition"
_OF_HELM = ("helm.sh/", "meta.helm.sh/", "app.kubernetes.io/managed-by")
# The loader in pure Python takes seconds for the definitions.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MANIFESTS = "manifests.yaml"
KUSTOMIZE = "kustomize"


@dataclass(frozen=True)
class Component:
    """The chart's values before and after; a component's patches are the difference of the manifests."""

    before: Values
    after: Values


_PROVIDERS = ("volcano", "scheduler-plugins", "kubernetes")
_GANGS: Mapping[str, Values] = {
    f"gang-{provider}": {"gangSchedulingManagement.schedulerProvider": provider} for provider in _PROVIDERS
}
_BOTH: Mapping[str, Values] = {"prometheus": _METRICS, **_GANGS}
COMPONENTS: Mapping[str, Component] = MappingProxyType(
    {
        "cert-manager": Component({}, _CERTIFICATES),
        **{name: Component({}, values) for name, values in _BOTH.items()},
        # The policy lets scrapers in whether or not there is something to scrape.
        "network-policy": Component(_METRICS, {**_METRICS, **_POLICY}),
        "alerts": Component(_METRICS, {**_METRICS, "alerts.enabled": True}),
        "dashboard": Component({}, {"dashboard.enabled": True}),
        # These replace the components above if cert-manager is applied first, because both change the same
        # objects.
        **{
            f"{name}-with-cert-manager": Component(_CERTIFICATES, {**_CERTIFICATES, **values})
            for name, values in _BOTH.items()
        },
    }
)


def kustomization(resources: Sequence[str], components: Sequence[str] = ()) -> str:
    """Return the text of a kustomization."""
    content: Object = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    content["resources"] = list(resources)
    if components:
        content["components"] = list(components)
    return document(content)


def component(before: Sequence[Object], after: Sequence[Object]) -> Mapping[str, str]:
    """Return file name → text of a component that turns `before` into `after`."""
    old, new = ({key(obj): obj for obj in objects} for objects in (before, after))
    content: Object = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    files: dict[str, str] = {}
    come = [obj for name, obj in new.items() if name not in old]
    if come:
        content["resources"] = ["resources.yaml"]
        files["resources.yaml"] = rendered(come)
    patches = [_removal(obj) for name, obj in old.items() if name not in new]
    patches += [_change(old[name], obj) for name, obj in new.items() if name in old and old[name] != obj]
    if patches:
        content["patches"] = patches
    files[KUSTOMIZATION] = document(content)
    return files


def _removal(obj: Object) -> Object:
    metadata = {field: obj["metadata"][field] for field in ("name", "namespace") if field in obj["metadata"]}
    kind = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    return {"patch": document({"$patch": "delete", **kind, "metadata": metadata})}


def _change(old: Object, new: Object) -> Object:
    operations = jsonpatch.make_patch(old, new).patch
    kind, field, path = _CONFIGURATION
    if old["kind"] == kind and field in old:
        # The file is one string. A component for another version of the file would undo its changes, so the
        # component must not apply.
        name = path.rpartition("/")[2]
        operations.insert(0, {"op": "test", "path": path, "value": old[field][name]})
    group, _, version = old["apiVersion"].rpartition("/")
    target = {"group": group, "version": version, "kind": old["kind"], "name": old["metadata"]["name"]}
    return {
        "target": {name: value for name, value in target.items() if value},
        "patch": yaml.safe_dump(operations, sort_keys=False, width=10_000),
    }


class _Plain(_Dumper):  # type: ignore[misc, valid-type]
    def ignore_aliases(self, data: Any) -> bool:
        """Write no anchors, because no reader expects them in a manifest."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Write texts of several lines as blocks: files and patches in a manifest are read line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _text)


def parsed(text: str) -> list[Object]:
    """Parse the objects of a text with several YAML documents."""
    return [obj for obj in yaml.load_all(text, Loader=_Loader) if obj]


def rendered(objects: Iterable[Object]) -> str:
    """Return the text of several YAML documents."""
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


def document(content: Object) -> str:
    """Return the text of one YAML document."""
    return rendered([content])


def plain(objects: Iterable[Object]) -> list[Object]:
    """Return the Namespace and the objects of a release in it, in an order in which they can be applied."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    bare = [_without_helm(obj) for obj in objects]
    # In the chart's own order, objects that need others come last. Definitions come first, because the API
    # server needs a moment to serve them.
    return [namespace, *sorted(bare, key=lambda obj: obj["kind"] != DEFINITION)]


def key(obj: Object) -> tuple[str, str, str, str]:
    """Return API version, kind, namespace and name, which identify an object."""
    metadata = obj["metadata"]
    return obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"]


def split(objects: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    """Return the definitions, and all other objects."""
    definitions = [obj for obj in objects if obj["kind"] == DEFINITION]
    return definitions, [obj for obj in objects if obj["kind"] != DEFINITION]


def _without_helm(obj: Object) -> Object:
    bare = copy.deepcopy(obj)
    metadatas = [bare["metadata"], bare.get("spec", {}).get("template", {}).get("metadata", {})]
    for metadata in metadatas:
        for field in ("labels", "annotations"):
            own = {
                name: value
                for name, value in metadata.get(field, {}).items()
                if not name.startswith(_OF_HELM)
            }
            if own:
                metadata[field] = own
            else:
                metadata.pop(field, None)
    return bare


@dataclass(frozen=True)
class Chart:
    """The chart in a directory, and the helm that renders it."""

    directory: Path
    helm: Path

    def objects(self, values: Mapping[str, Any]) -> list[Object]:
        """Return the manifests for values, given by dotted path. Raises ReleaseError if helm rejects them."""
        settings = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
        where = [f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES_VERSION}"]
        text = run([self.helm, "template", "lws", self.directory, *where, *settings], self.directory)
        return plain(parsed(text))

    def package(self, target: Path, version: str) -> Path:
        """Create the package for `helm install` and `helm push`. Raises ReleaseError for another version."""
        run([self.helm, "package", self.directory, "--destination", target], self.directory)
        archive = target / f"lws-{version}.tgz"
        if not archive.is_file():
            raise ReleaseError(f"{self.directory}: Chart.yaml does not say version {version}")
        return archive.rename(target / f"lws-chart-{version}.tgz")


def write_manifests(chart: Chart, target: Path) -> None:
    """Write manifests.yaml, and a base for kustomize with a component for each larger choice."""
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
    # The definitions are large and the same for all components.
    small = {"crds.enabled": False}
    for name, variant in COMPONENTS.items():
        before, after = (chart.objects({**small, **values}) for values in (variant.before, variant.after))
        _write(target / KUSTOMIZE / "components" / name, component(before, after))


def _write(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
