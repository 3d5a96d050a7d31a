"""Which builder is used for which platform, and the error if there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.image.builders import Machine, choose_builder, choose_platforms
from tools.image.steps import ImageError, LackingError


def machine(installed: Sequence[str], *, silent: Sequence[str] = (), root: bool = True) -> Machine:
    """Return a machine with the installed programs. silent: command lines that get no answer."""
    return Machine(
        installed=lambda program: program in installed,
        answers=lambda command: " ".join(command) not in silent,
        root=root,
        architecture="x86_64",
        emulators=Path("there-is-none"),
    )


@pytest.mark.parametrize(
    ("host", "chosen"),
    [
        pytest.param(machine(["docker", "podman", "buildah"]), "docker", id="all"),
        pytest.param(machine(["docker", "buildah"], silent=["docker info"]), "buildah", id="no-daemon"),
        pytest.param(
            machine(["docker", "podman"], silent=["docker buildx version"]), "podman", id="no-buildx"
        ),
        pytest.param(machine(["podman", "buildah"], root=False), "podman", id="rootless"),
    ],
)
def test_the_first_usable_builder_is_chosen(host: Machine, chosen: str) -> None:
    assert choose_builder(host) == chosen


def test_only_the_requested_builder_is_chosen() -> None:
    assert choose_builder(machine(["docker", "buildah"]), "buildah") == "buildah"
    with pytest.raises(ImageError, match=r"podman: not installed"):
        choose_builder(machine(["docker", "buildah"]), "podman")
    with pytest.raises(ImageError, match=r"BUILDER=kaniko: expected one of docker, podman, buildah"):
        choose_builder(machine(["docker"]), "kaniko")


def test_a_refusal_lists_the_requirement_of_each_builder() -> None:
    host = machine(["docker", "buildah"], silent=["docker info"], root=False)
    with pytest.raises(LackingError) as refusal:
        choose_builder(host)
    assert str(refusal.value) == (
        "nothing here builds images (docker: no daemon answers; podman: not installed; "
        "buildah: needs root: `sudo make image`)"
    )


def test_a_machine_without_builders_gets_instructions() -> None:
    with pytest.raises(ImageError, match="apt-get install buildah debootstrap"):
        choose_builder(machine([]))


def test_only_supported_platforms_are_built_and_others_are_listed() -> None:
    possible, refused = choose_platforms(machine([]))
    assert possible == ("linux/amd64",)
    assert list(refused) == ["linux/arm64"]
    assert "qemu-user-static" in refused["linux/arm64"]


def test_an_emulator_enables_both_platforms_with_the_own_one_last(tmp_path: Path) -> None:
    """Both images get one name in the builder's store, and the machine's own platform has to remain there."""
    (tmp_path / "qemu-aarch64").touch()
    host = Machine(architecture="x86_64", emulators=tmp_path)
    assert choose_platforms(host) == (("linux/arm64", "linux/amd64"), {})


@pytest.mark.parametrize(
    ("platforms", "error"),
    [
        ("linux/arm64", "linux/arm64 cannot be built: this machine"),
        ("linux/amd64,linux/arm64", "linux/arm64 cannot be built"),
        ("linux/s390x", "expected some of linux/amd64, linux/arm64"),
    ],
)
def test_an_unsupported_platform_is_rejected(platforms: str, error: str) -> None:
    with pytest.raises(ImageError, match=error):
        choose_platforms(machine([]), platforms)
