"""tools.localcluster.access: writing and reading a kubeconfig."""

from __future__ import annotations

import pytest
import yaml

from tools.localcluster.access import Access, kubeconfig_text, read_access

ACCESS = Access("https://127.0.0.1:20001", b"-----BEGIN CERTIFICATE-----", "secret: token", "team")


def test_text_is_complete() -> None:
    config = yaml.safe_load(kubeconfig_text(ACCESS))
    assert config["current-context"] == config["contexts"][0]["name"]
    assert config["contexts"][0]["context"]["namespace"] == "team"
    assert config["clusters"][0]["cluster"]["server"] == ACCESS.server
    assert config["users"][0]["user"] == {"token": ACCESS.token}


def test_round_trip() -> None:
    assert read_access(kubeconfig_text(ACCESS)) == ACCESS


@pytest.mark.parametrize("text", ["", "{}", "clusters: []", "a: [", "- 1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a kubeconfig with inline CA and token"):
        read_access(text)
