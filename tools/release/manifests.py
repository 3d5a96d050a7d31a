"""What is applied where there is no Helm?

In: objects that the chart renders. Out: the same objects as plain manifests, pure: a Namespace in front, and
nothing that only Helm reads.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

Object = dict[str, Any]

NAMESPACE = "lws-system"
DEFINITION = "CustomResourceDefinition"
_OF_HELM = ("helm.sh/", "meta.helm.sh/", "app.kubernetes.io/managed-by")
# The pure Python loader takes seconds for the definitions.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Plain(_Dumper):  # type: ignore[misc, valid-type]
    def ignore_aliases(self, data: Any) -> bool:
        """No reader expects anchors in a manifest."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Files and patches within a manifest are read line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _text)


def parsed(text: str) -> list[Object]:
    """The objects of a text of several YAML documents."""
    return [each for each in yaml.load_all(text, Loader=_Loader) if each]


def rendered(objects: Iterable[Object]) -> str:
    """The text of several YAML documents."""
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


def document(content: Object) -> str:
    """The text of one YAML document."""
    return rendered([content])


def plain(objects: Iterable[Object]) -> list[Object]:
    """The Namespace and the objects of a release in it, in an order in which they can be applied."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    bare = [_without_helm(each) for each in objects]
    # Those that wait for others are last in the chart's own order; definitions are served after a moment.
    return [namespace, *sorted(bare, key=lambda each: each["kind"] != DEFINITION)]


def key(obj: Object) -> tuple[str, str, str, str]:
    """API version, kind, namespace and name: what an object is told apart by."""
    metadata = obj["metadata"]
    return obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"]


def split(objects: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    """The definitions, and everything else."""
    definitions = [each for each in objects if each["kind"] == DEFINITION]
    return definitions, [each for each in objects if each["kind"] != DEFINITION]


def _without_helm(obj: Object) -> Object:
    bare = copy.deepcopy(obj)
    metadatas = [bare["metadata"], bare.get("spec", {}).get("template", {}).get("metadata", {})]
    for metadata in metadatas:
        for field in ("labels", "annotations"):
            kept = {
                name: value
                for name, value in metadata.get(field, {}).items()
                if not name.startswith(_OF_HELM)
            }
            if kept:
                metadata[field] = kept
            else:
                metadata.pop(field, None)
    return bare
