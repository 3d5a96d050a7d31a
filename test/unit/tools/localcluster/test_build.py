"""tools.localcluster.build: binaries are built once, and an interrupted build leaves nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tools.localcluster import build
from tools.localcluster.build import (
    BuildError,
    cache_directory,
    ensure_built,
    find_kwok,
    find_module,
    find_programs,
)
from tools.localcluster.progress import Progress, silent
from tools.localcluster.recipe import KWOK, Target, cache_key, platform_name, target_of

FAKE_GO = """#!/bin/sh
echo "$1" >> "{log}"
if [ "$1" = list ]; then printf 'a\\nb\\nc\\nd\\n'; exit 0; fi
while [ "$1" != -o ]; do shift; done
echo a >&2; echo b >&2
{build}
"""


@pytest.fixture
def target(tmp_path: Path) -> Target:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module x")
    return Target("thing", module, ".", "-s -w", ("thing", "one", "two"))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a Go that builds a file at once; return the file that records its calls."""
    return install_go(tmp_path, monkeypatch, 'echo binary > "$2"')


def install_go(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    log = directory / "calls"
    go = directory / "go"
    go.write_text(FAKE_GO.format(log=log, build=script))
    go.chmod(0o755)
    monkeypatch.setattr(build, "find_go", lambda cache: go)
    return log


def test_cache_directory_follows_the_environment() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/caches"}) == Path("/caches/lws-localcluster")
    assert cache_directory({}) == Path.home() / ".cache" / "lws-localcluster"


def test_built_once_with_a_link_for_each_name(target: Target, calls: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    directory = ensure_built(target, tmp_path / "cache", seen.append)
    for name in ("thing", "one", "two"):
        assert (directory / name).read_text() == "binary\n"
    assert ensure_built(target, tmp_path / "cache", seen.append) == directory
    assert calls.read_text().split() == ["list", "build"]
    assert [progress.step for progress in seen if progress.finished] == [
        "find Go",
        "download thing",
        "compile thing",
    ]
    assert all(progress.fraction is None or 0 <= progress.fraction <= 1 for progress in seen)


def test_changed_module_is_built_again(target: Target, calls: Path, tmp_path: Path) -> None:
    first = ensure_built(target, tmp_path / "cache", silent)
    (target.module / "go.mod").write_text("module y")
    second = ensure_built(target, tmp_path / "cache", silent)
    assert first != second
    assert (first / "one").exists()
    assert (second / "one").exists()


def test_sources_are_found_in_the_module_cache_of_go(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\n" + 'printf \'{\n"Dir": "%s/%s/%s"\n}\n\' "$PWD" "$2" "$4"')
    go.chmod(0o755)
    monkeypatch.setattr(build, "find_go", lambda cache: go)
    assert find_module(target, "example.com/x", silent) == target.module / "download" / "example.com/x"
    go.write_text('#!/bin/sh\necho "no such module" >&2; exit 1')
    with pytest.raises(BuildError, match=r"(?s)download example.com/x failed in .*no such module"):
        find_module(target, "example.com/x", silent)


def test_failed_build_is_removed_and_reported(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, monkeypatch, 'echo half > "$2"; echo "no space left" >&2; exit 1')
    with pytest.raises(BuildError, match=r"(?s)compile thing failed in .*no space left"):
        ensure_built(target, tmp_path / "cache", silent)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_errors_are_reported_while_other_packages_are_compiled(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = "for n in $(seq 60); do echo example.com/package-$n >&2; done"
    install_go(tmp_path, monkeypatch, f'echo "a.go:1:2: undefined: b" >&2; {others}; exit 1')
    with pytest.raises(BuildError, match=r"failed in \S+:\na\.go:1:2: undefined: b$"):
        ensure_built(target, tmp_path / "cache", silent)


def test_interrupted_build_is_removed(target: Target, calls: Path, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == "compile thing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_built(target, tmp_path / "cache", interrupt)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_two_concurrent_builds_compile_once(target: Target, calls: Path, tmp_path: Path) -> None:
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(ensure_built(target, tmp_path / "cache", silent)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths[0] == paths[1]
    assert calls.read_text().split() == ["list", "build"]


def test_supplied_binaries_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supplied = tmp_path / "etcd"
    supplied.touch(mode=0o755)
    built = tmp_path / "built"
    monkeypatch.setattr(build, "ensure_built", lambda target, cache, report: built)
    programs = find_programs(["etcd", "kwok"], silent, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert programs == {"etcd": supplied, "kwok": built / "kwok"}


@pytest.mark.parametrize("there_already", [False, True], ids=["alone", "with the control plane"])
def test_only_kwok_is_built_unless_a_control_plane_is_built_already(
    there_already: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets: list[Target] = []
    monkeypatch.setattr(build, "ensure_built", lambda target, *_: targets.append(target) or tmp_path)
    full = target_of("kwok")
    if there_already:
        folder = f"{full.name}-{cache_key(full, platform_name())}"
        (tmp_path / "lws-localcluster" / folder).mkdir(parents=True)
    environment = {"XDG_CACHE_HOME": str(tmp_path), "K8S": "of another version"}
    assert find_kwok(silent, environment) == tmp_path / "kwok"
    assert targets == [full if there_already else KWOK]


def test_a_supplied_kwok_is_used(tmp_path: Path) -> None:
    (tmp_path / "kwok").touch(mode=0o755)
    assert find_kwok(silent, {"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path / "kwok"
