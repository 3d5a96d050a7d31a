"""Which kustomize components turn the manifests into what the chart renders for other values?

In: objects before and after a value is set. Out: the files of a component, pure: objects that come, and
patches for those that change or go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jsonpatch
import yaml

from tools.release.manifests import Object, document, key, rendered

Values = Mapping[str, Any]

BASE = "base"
KUSTOMIZATION = "kustomization.yaml"
_CONFIGURATION = ("ConfigMap", "data", "/data/controller_manager_config.yaml")
_CERTIFICATES: Values = {"enableCertManager": True}
_METRICS: Values = {"enablePrometheus": True}
_POLICY: Values = {"networkPolicy.enabled": True}


@dataclass(frozen=True)
class Component:
    """What the chart's values are before and after it: its patches are the difference."""

    before: Values
    after: Values


def _gang(provider: str) -> Values:
    return {"gangSchedulingManagement.schedulerProvider": provider}


def _components() -> Mapping[str, Component]:
    providers = ("volcano", "scheduler-plugins", "kubernetes")
    plain = {f"gang-{provider}": _gang(provider) for provider in providers}
    both = {"prometheus": _METRICS, **plain}
    return MappingProxyType(
        {
            "cert-manager": Component({}, _CERTIFICATES),
            **{name: Component({}, values) for name, values in both.items()},
            # Scrapers are let in whether or not there is something to scrape.
            "network-policy": Component(_METRICS, {**_METRICS, **_POLICY}),
            "alerts": Component(_METRICS, {**_METRICS, "alerts.enabled": True}),
            "dashboard": Component({}, {"dashboard.enabled": True}),
            # After cert-manager, in place of those above: they change what cert-manager changes too.
            **{
                f"{name}-with-cert-manager": Component(_CERTIFICATES, {**_CERTIFICATES, **values})
                for name, values in both.items()
            },
        }
    )


COMPONENTS = _components()
"""Name → what it does."""


def kustomization(resources: Sequence[str], components: Sequence[str] = ()) -> str:
    """The text of a kustomization."""
    content: Object = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    content["resources"] = list(resources)
    if components:
        content["components"] = list(components)
    return document(content)


def component(before: Sequence[Object], after: Sequence[Object]) -> Mapping[str, str]:
    """File name → text of a component that turns `before` into `after`."""
    old, new = ({key(each): each for each in objects} for objects in (before, after))
    content: Object = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    files: dict[str, str] = {}
    come = [each for name, each in new.items() if name not in old]
    if come:
        content["resources"] = ["resources.yaml"]
        files["resources.yaml"] = rendered(come)
    patches = [_removal(each) for name, each in old.items() if name not in new]
    patches += [_change(old[name], each) for name, each in new.items() if name in old and old[name] != each]
    if patches:
        content["patches"] = patches
    files[KUSTOMIZATION] = document(content)
    return files


def _removal(obj: Object) -> Object:
    bare = {
        "$patch": "delete",
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {
            field: obj["metadata"][field] for field in ("name", "namespace") if field in obj["metadata"]
        },
    }
    return {"patch": document(bare)}


def _change(old: Object, new: Object) -> Object:
    operations = jsonpatch.make_patch(old, new).patch
    kind, field, path = _CONFIGURATION
    if old["kind"] == kind and field in old:
        # The file is one string. A component that was made for another one would undo what that one says, so
        # it must not apply.
        name = path.rpartition("/")[2]
        operations.insert(0, {"op": "test", "path": path, "value": old[field][name]})
    group, _, version = old["apiVersion"].rpartition("/")
    target = {"group": group, "version": version, "kind": old["kind"], "name": old["metadata"]["name"]}
    return {
        "target": {name: value for name, value in target.items() if value},
        "patch": yaml.safe_dump(operations, sort_keys=False, width=10_000),
    }
