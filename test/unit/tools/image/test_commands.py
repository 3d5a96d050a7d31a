"""The command lines of the three builders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image.builders import BUILDERS, Build, Builder

BUILD = Build(
    tag="localhost/lws:0.1.0",
    platform="linux/amd64",
    context=Path("/src"),
    labels={"org.opencontainers.image.version": "0.1.0"},
    arguments={"BASE": "localhost/base", "GIT_COMMIT": "abc"},
    secrets={"pip.conf": Path("/secrets/pip.conf")},
)


def builder(name: str) -> Builder:
    return Builder(name, store=Path("/cache/store"), scratch=Path("/cache/scratch"))


@pytest.mark.parametrize("name", BUILDERS)
def test_every_builder_gets_all_arguments(name: str) -> None:
    command = builder(name).build(BUILD)
    assert {
        "--network=host",
        "--platform=linux/amd64",
        "--tag=localhost/lws:0.1.0",
        "--label=org.opencontainers.image.version=0.1.0",
        "--build-arg=BASE=localhost/base",
        "--build-arg=GIT_COMMIT=abc",
        "--secret=id=pip.conf,src=/secrets/pip.conf",
    } <= set(command)
    assert command[-1] == "/src"


@pytest.mark.parametrize("name", ["podman", "buildah"])
def test_a_local_base_is_not_pulled(name: str) -> None:
    assert "--pull=never" in builder(name).build(BUILD)


def test_buildah_uses_separate_storage_and_minimal_isolation() -> None:
    commands = builder("buildah")
    lines = [
        commands.build(BUILD),
        commands.save("x", Path("y")),
        commands.pull("x", "z"),
        commands.find("x"),
        commands.forget("x"),
    ]
    apart = {"--root=/cache/store", "--runroot=/cache/scratch/run", "TMPDIR=/cache/scratch"}
    assert [
        line for line in lines if not {*apart, "BUILDAH_ISOLATION=chroot", "STORAGE_DRIVER=vfs"} <= set(line)
    ] == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("docker", "docker save --output=/a.tar localhost/lws:0.1.0"),
        ("podman", "podman save --format=oci-archive --output=/a.tar localhost/lws:0.1.0"),
        (
            "buildah",
            "env BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs TMPDIR=/cache/scratch "
            "buildah --root=/cache/store --runroot=/cache/scratch/run "
            "push localhost/lws:0.1.0 oci-archive:/a.tar:localhost/lws:0.1.0",
        ),
    ],
)
def test_an_archive_has_the_name_of_the_image(name: str, command: str) -> None:
    assert " ".join(builder(name).save(BUILD.tag, Path("/a.tar"))) == command
