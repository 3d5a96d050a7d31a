"""tools.release.chart: a component is the difference that a chart value makes."""

from __future__ import annotations

from typing import Any

import jsonpatch
import yaml

from tools.release.chart import COMPONENTS, KUSTOMIZATION, component, kustomization


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n"},
        "data": {"controller_manager_config.yaml": "", **data},
    }


def test_added_objects_are_resources() -> None:
    files = component([], [config_map("a")])
    assert yaml.safe_load(files[KUSTOMIZATION])["resources"] == ["resources.yaml"]
    assert yaml.safe_load(files["resources.yaml"]) == config_map("a")


def test_removed_objects_are_deleted_by_name() -> None:
    files = component([config_map("a")], [])
    (patch,) = yaml.safe_load(files[KUSTOMIZATION])["patches"]
    assert yaml.safe_load(patch["patch"]) == {
        "$patch": "delete",
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "n"},
    }
    assert list(files) == [KUSTOMIZATION]


def test_changed_objects_are_patched_after_a_test_of_the_old_value() -> None:
    old, new = config_map("a", b="1"), config_map("a", b="2")
    files = component([old], [new])
    (patch,) = yaml.safe_load(files[KUSTOMIZATION])["patches"]
    assert patch["target"] == {"version": "v1", "kind": "ConfigMap", "name": "a"}
    operations = yaml.safe_load(patch["patch"])
    assert operations[0] == {"op": "test", "path": "/data/controller_manager_config.yaml", "value": ""}
    assert jsonpatch.apply_patch(old, operations) == new


def test_unchanged_objects_are_not_patched() -> None:
    files = component([config_map("a")], [config_map("a")])
    assert yaml.safe_load(files[KUSTOMIZATION]) == {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
    }


def test_each_choice_that_cert_manager_touches_has_a_component_for_after_it() -> None:
    names = {name.removesuffix("-with-cert-manager") for name in COMPONENTS if name.endswith("-manager")}
    assert names - {"cert-manager"} == set(COMPONENTS) - {
        *("cert-manager", "network-policy", "alerts", "dashboard"),
        *(name for name in COMPONENTS if name.endswith("-with-cert-manager")),
    }


def test_components_are_listed_only_if_there_are_any() -> None:
    assert "components" not in yaml.safe_load(kustomization(["base"]))
    assert yaml.safe_load(kustomization(["base"], ["a"]))["components"] == ["a"]
