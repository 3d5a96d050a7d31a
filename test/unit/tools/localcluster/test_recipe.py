"""tools.localcluster.recipe: what is compiled, with which command and cache key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.localcluster.recipe import (
    FOR_TESTS,
    HELM_VERSION,
    Target,
    all_programs,
    build_command,
    cache_key,
    go_environment,
    helm_linker_flags,
    kubernetes_linker_flags,
    packages_command,
    target_of,
    targets,
)
from tools.localcluster.versions import DEFAULT, RELEASES


@pytest.fixture
def target(tmp_path: Path) -> Target:
    for name in ("go.mod", "go.sum", "main.go"):
        (tmp_path / name).write_text(name)
    return Target("thing", tmp_path, "example.com/thing", "-s -w", ("one", "two"))


def test_key_follows_sources_elsewhere(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "elsewhere.go"
    source.write_text("package main")
    shared = replace(target, sources=(source,))
    keys = {cache_key(target, "linux-x86_64"), cache_key(shared, "linux-x86_64")}
    source.write_text("package main // changed")
    assert len({*keys, cache_key(shared, "linux-x86_64")}) == 3


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_key_follows_every_pinned_file(target: Target, name: str) -> None:
    before = cache_key(target, "linux-x86_64")
    (target.module / name).write_text("changed")
    assert cache_key(target, "linux-x86_64") != before


def test_key_follows_platform_and_command(target: Target) -> None:
    keys = {
        cache_key(target, "linux-x86_64"),
        cache_key(target, "darwin-arm64"),
        cache_key(replace(target, linker_flags="-s"), "linux-x86_64"),
        cache_key(replace(target, package="example.com/other"), "linux-x86_64"),
        cache_key(replace(target, programs=("one",)), "linux-x86_64"),
        cache_key(replace(target, tags="small"), "linux-x86_64"),
    }
    assert len(keys) == 6


def test_key_is_the_same_for_the_same_content_elsewhere(target: Target, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (copied / name).write_bytes((target.module / name).read_bytes())
    assert cache_key(replace(target, module=copied), "linux-x86_64") == cache_key(target, "linux-x86_64")


def test_key_does_not_move_text_between_files(target: Target) -> None:
    before = cache_key(target, "linux-x86_64")
    (target.module / "go.mod").write_text("go.modgo.sum")
    (target.module / "go.sum").write_text("")
    assert cache_key(target, "linux-x86_64") != before


def test_build_command(target: Target) -> None:
    assert build_command(Path("/go"), target, Path("/out")) == [
        "/go",
        "build",
        "-v",
        "-trimpath",
        "-mod=readonly",
        "-ldflags",
        "-s -w",
        "-o",
        "/out",
        "example.com/thing",
    ]


def test_packages_command(target: Target) -> None:
    assert packages_command(Path("/go"), target) == [
        "/go",
        "list",
        "-mod=readonly",
        "-deps",
        "example.com/thing",
    ]


def test_environment_needs_no_compiler_and_no_other_go() -> None:
    environment = go_environment({"HOME": "/home/x", "CGO_ENABLED": "1"})
    assert environment["HOME"] == "/home/x"
    assert (environment["CGO_ENABLED"], environment["GOTOOLCHAIN"]) == ("0", "local")


def test_linker_flags_name_the_version_twice() -> None:
    flags = kubernetes_linker_flags("1.37.2")
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        for setting in ("gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"):
            assert f"-X {package}.{setting}" in flags


def test_helm_renders_for_the_same_kubernetes() -> None:
    flags = helm_linker_flags("3.22.0", "1.37.2")
    assert "-X helm.sh/helm/v3/internal/version.version=v3.22.0" in flags
    for package in ("chartutil", "lint/rules"):
        assert f"-X helm.sh/helm/v3/pkg/{package}.k8sVersionMinor=37" in flags


@pytest.mark.parametrize(
    ("program", "minor", "module", "version"),
    [
        *(("etcd", minor, "k8s.io/kubernetes", release) for minor, release in RELEASES.items()),
        ("helm", DEFAULT, "helm.sh/helm/v3", HELM_VERSION),
    ],
)
def test_versions_are_those_of_the_modules(program: str, minor: str, module: str, version: str) -> None:
    lines = (target_of(program, minor).module / "go.mod").read_text().splitlines()
    assert [module, f"v{version}"] in [line.removeprefix("require").split()[:2] for line in lines]


@pytest.mark.parametrize("minor", RELEASES)
def test_every_program_has_one_target(minor: str) -> None:
    built = [program for target in targets(minor) for program in target.programs]
    assert sorted(built) == sorted(all_programs()) and len(set(built)) == len(built)
    assert all(program in target_of(program, minor).programs for program in built)
    with pytest.raises(KeyError, match="no such program: docker; known are etcd"):
        target_of("docker", minor)


@pytest.mark.parametrize("minor", RELEASES)
def test_modules_are_pinned(minor: str) -> None:
    for target in (*targets(minor), *FOR_TESTS):
        assert (target.module / "go.mod").is_file()
        assert (target.module / "go.sum").is_file()
        assert all(source.is_file() for source in target.sources)


@pytest.mark.parametrize(
    ("minor", "count"), [("1.30", 30), ("1.32", 31), ("1.34", 31), ("1.36", 33), ("1.37", 33)]
)
def test_kubernetes_module_replaces_all_staging_modules(minor: str, count: int) -> None:
    text = (target_of("etcd", minor).module / "go.mod").read_text()
    replaced = [line.split() for line in text.splitlines() if " => " in line]
    assert len(replaced) == count
    library = "v0." + RELEASES[minor].removeprefix("1.")
    assert all(old == new and version == library for old, _, new, version in replaced)


def test_versions_have_separate_directories() -> None:
    keys = {cache_key(target_of("etcd", minor), "linux-x86_64") for minor in RELEASES}
    assert len(keys) == len(RELEASES)


def test_kwok_is_the_same_for_every_version() -> None:
    text = (target_of("kwok").module / "go.mod").read_text()
    (newest,) = [line.strip() for line in text.splitlines() if "sigs.k8s.io/kwok " in line]
    for minor in RELEASES:
        assert newest in (target_of("kwok", minor).module / "go.mod").read_text()


def test_programs_of_tests_are_not_part_of_a_cluster() -> None:
    assert not {"promtool", "kueue"} & set(all_programs())
    promtool = target_of("promtool")
    assert promtool.package == "github.com/prometheus/prometheus/cmd/promtool"
    for command in (build_command(Path("go"), promtool, Path("out")), packages_command(Path("go"), promtool)):
        assert f"-tags={promtool.tags}" in command
