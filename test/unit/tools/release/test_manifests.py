"""tools.release.chart: metadata that only Helm reads is removed, and the rest is unchanged."""

from __future__ import annotations

from typing import Any

from tools.release.chart import NAMESPACE, key, parsed, plain, rendered, split


def made(kind: str, name: str, **more: Any) -> dict[str, Any]:
    labels = {
        "helm.sh/chart": "lws-1.0.0",
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": "lws",
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}, **more}


def test_the_namespace_comes_first_and_definitions_before_what_is_of_them() -> None:
    objects = [made("Service", "b"), made("CustomResourceDefinition", "a"), made("ConfigMap", "c")]
    kinds = [(obj["kind"], obj["metadata"]["name"]) for obj in plain(objects)]
    assert kinds == [
        ("Namespace", NAMESPACE),
        ("CustomResourceDefinition", "a"),
        ("Service", "b"),
        ("ConfigMap", "c"),
    ]


def test_nothing_is_left_of_helm_and_nothing_else_goes() -> None:
    annotations = {"helm.sh/resource-policy": "keep"}
    template = {"metadata": {"labels": {"helm.sh/chart": "x", "control-plane": "controller-manager"}}}
    deployment = made("Deployment", "a", spec={"template": template, "replicas": 2})
    deployment["metadata"]["annotations"] = annotations
    _, bare = plain([deployment])
    assert bare["metadata"] == {"name": "a", "labels": {"app.kubernetes.io/name": "lws"}}
    assert bare["spec"] == {
        "template": {"metadata": {"labels": {"control-plane": "controller-manager"}}},
        "replicas": 2,
    }
    assert deployment["metadata"]["annotations"] == annotations, "what is given is not changed"


def test_what_is_written_is_read_back_and_files_within_it_are_readable() -> None:
    objects = [made("ConfigMap", "a", data={"file": "one\ntwo\n"}), made("Service", "b")]
    text = rendered(objects)
    assert parsed(text) == objects
    assert "  file: |\n    one\n    two\n" in text


def test_definitions_are_told_apart() -> None:
    definition, service = made("CustomResourceDefinition", "a"), made("Service", "b")
    assert split([definition, service]) == ([definition], [service])
    assert key(service) == ("v1", "Service", "", "b")
