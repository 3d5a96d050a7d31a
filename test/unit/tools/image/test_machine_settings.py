"""Which settings of the machine reach the build: package index, certificate authorities and proxies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image.builders import pip_settings, proxy_arguments, write_secrets

LISTED = """:env:.cert='{cert}'
global.find-links='/wheels'
global.index-url='https://one.example.com/simple'
:env:.index-url='https://two.example.com/simple'
"""


def test_the_package_index_is_passed_on_without_local_directories() -> None:
    assert pip_settings(LISTED.format(cert="/ca")) == {
        "cert": "/ca",
        "index-url": "https://two.example.com/simple",
    }


def test_ca_certificates_are_passed_to_the_build(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authorities")
    secrets = write_secrets(tmp_path, LISTED.format(cert=tmp_path / "ca.crt"))
    assert secrets == {"authorities": tmp_path / "ca.crt", "pip.conf": tmp_path / "pip.conf"}
    content = secrets["pip.conf"].read_text()
    assert (
        "cert = /run/secrets/authorities" in content
        and "index-url = https://two.example.com/simple" in content
    )
    assert secrets["pip.conf"].stat().st_mode & 0o077 == 0


def test_no_ca_certificates_are_passed_if_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    secrets = write_secrets(tmp_path, "")
    assert list(secrets) == ["pip.conf"] and "cert" not in secrets["pip.conf"].read_text()


def test_proxies_are_passed_on() -> None:
    environment = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "", "PATH": "/bin"}
    assert proxy_arguments(environment) == {"HTTPS_PROXY": "http://proxy:3128"}
