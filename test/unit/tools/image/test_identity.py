"""Labels and other metadata of an image."""

from __future__ import annotations

from pathlib import Path

import pytest

import lws
from tools.image.identity import Git, identify, public_address

ROOT = Path(__file__).resolve().parents[4]


def git(**answers: str) -> Git:
    """Return a git whose answers depend on the first argument."""
    return lambda arguments: answers.get(arguments[0].replace("-", "_"), "")


def test_labels_arguments_and_the_tag_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    remote = "https://github.com/example/lws.git"
    identity = identify(ROOT, git=git(rev_parse="abc", remote=remote))
    assert identity.tag == f"localhost/lws:{lws.__version__}"
    assert dict(identity.labels) == {
        "org.opencontainers.image.created": "1970-01-02T00:00:00Z",
        "org.opencontainers.image.revision": "abc",
        "org.opencontainers.image.source": "https://github.com/example/lws",
        "org.opencontainers.image.version": lws.__version__,
    }
    assert identity.build_arguments == {"BUILD_DATE": "1970-01-02T00:00:00Z", "GIT_COMMIT": "abc"}


def test_uncommitted_changes_are_reported() -> None:
    assert identify(ROOT, git=git(rev_parse="abc", status=" M Dockerfile")).revision == "abc-dirty"


def test_without_git_the_revision_is_unknown() -> None:
    identity = identify(ROOT, git=git())
    assert (identity.revision, identity.source) == ("unknown", "")
    assert "org.opencontainers.image.source" not in identity.labels


def test_another_name_can_be_given() -> None:
    assert identify(ROOT, "registry.example.com/lws:1", git()).tag == "registry.example.com/lws:1"


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b"),
        ("https://user:secret@git.example.com/a/b", "https://git.example.com/a/b"),
        ("git@github.com:a/b.git", "https://github.com/a/b"),
        ("ssh://git@git.example.com/a/b.git", "https://git.example.com/a/b"),
        ("/srv/git/lws", ""),
        ("../lws.git", ""),
        ("", ""),
    ],
)
def test_a_label_never_has_credentials_or_paths(remote: str, address: str) -> None:
    assert public_address(remote) == address
