"""tools.release.chart: metadata that only Helm reads is removed, and the rest is unchanged."""

from __future__ import annotations

from typing import Any

from tools.release.chart import NAMESPACE, key, parsed, plain, rendered, split


def make_object(kind: str, name: str, **more: Any) -> dict[str, Any]:
    labels = {
        "helm.sh/chart": "lws-1.0.0",
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": "lws",
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}, **more}


def test_the_namespace_comes_first_and_crds_precede_their_objects() -> None:
    objects = [
        make_object("Service", "b"),
        make_object("CustomResourceDefinition", "a"),
        make_object("ConfigMap", "c"),
    ]
    kinds = [(obj["kind"], obj["metadata"]["name"]) for obj in plain(objects)]
    assert kinds == [
        ("Namespace", NAMESPACE),
        ("CustomResourceDefinition", "a"),
        ("Service", "b"),
        ("ConfigMap", "c"),
    ]


def test_only_helm_metadata_is_removed() -> None:
    annotations = {"helm.sh/resource-policy": "keep"}
    template = {"metadata": {"labels": {"helm.sh/chart": "x", "control-plane": "controller-manager"}}}
    deployment = make_object("Deployment", "a", spec={"template": template, "replicas": 2})
    deployment["metadata"]["annotations"] = annotations
    _, bare = plain([deployment])
    assert bare["metadata"] == {"name": "a", "labels": {"app.kubernetes.io/name": "lws"}}
    assert bare["spec"] == {
        "template": {"metadata": {"labels": {"control-plane": "controller-manager"}}},
        "replicas": 2,
    }
    assert deployment["metadata"]["annotations"] == annotations, "the argument is not changed"


def test_written_manifests_are_read_back_with_readable_files() -> None:
    objects = [make_object("ConfigMap", "a", data={"file": "one\ntwo\n"}), make_object("Service", "b")]
    text = rendered(objects)
    assert parsed(text) == objects
    assert "  file: |\n    one\n    two\n" in text


def test_crds_are_separated_from_other_objects() -> None:
    definition, service = make_object("CustomResourceDefinition", "a"), make_object("Service", "b")
    assert split([definition, service]) == ([definition], [service])
    assert key(service) == ("v1", "Service", "", "b")
