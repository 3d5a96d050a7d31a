"""lws.config.checks: validation errors, one line for each mistake."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lws.config.checks import ConfigError, config_error
from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration

HEAD = {"apiVersion": API_VERSION, "kind": KIND}

LINES: dict[str, tuple[Any, str]] = {
    "no apiVersion": (
        {"kind": KIND},
        "f:apiVersion: is required: write `apiVersion: config.lws.x-k8s.io/v1alpha1`",
    ),
    "no kind": ({"apiVersion": API_VERSION}, "f:kind: is required: write `kind: Configuration`"),
    "another version": (
        HEAD | {"apiVersion": "config.x-k8s.io/v1"},
        "f:apiVersion: must be config.lws.x-k8s.io/v1alpha1, not 'config.x-k8s.io/v1'",
    ),
    "a key mistyped": (HEAD | {"webhook": {"prot": 1}}, "f:webhook.prot: no such key; did you mean port?"),
    "an unknown key": (
        HEAD | {"metrics": {"zzz": 1}},
        "f:metrics.zzz: no such key; there are bindAddress, perSet",
    ),
    "a section mistyped": (
        HEAD | {"leaderelection": {}},
        "f:leaderelection: no such key; did you mean leaderElection?",
    ),
    "a key in an optional section": (
        HEAD | {"gangSchedulingManagement": {"schedulerProvider": "volcano", "x": 1}},
        "f:gangSchedulingManagement.x: no such key; there are schedulerProvider",
    ),
    "gang without provider": (
        HEAD | {"gangSchedulingManagement": {}},
        "f:gangSchedulingManagement.schedulerProvider: is required: set it, or remove the section",
    ),
    "an address without quotes": (
        HEAD | {"metrics": {"bindAddress": 0}},
        'f:metrics.bindAddress: must be a string, not 0: put it in quotes, "0"',
    ),
    "a mapping for text": (HEAD | {"webhook": {"host": {}}}, "f:webhook.host: must be a string, not {}"),
    "text for a number": (
        HEAD | {"webhook": {"port": "x"}},
        "f:webhook.port: must be a whole number without quotes, not 'x'",
    ),
    "a fraction instead of an integer": (
        HEAD | {"clientConnection": {"burst": 1.5}},
        "f:clientConnection.burst: must be a whole number without quotes, not 1.5",
    ),
    "text for a fraction": (
        HEAD | {"clientConnection": {"qps": "1"}},
        "f:clientConnection.qps: must be a number without quotes, not '1'",
    ),
    "text for a boolean": (
        HEAD | {"leaderElection": {"leaderElect": "yes"}},
        "f:leaderElection.leaderElect: must be true or false, not 'yes'",
    ),
    "a duration without unit": (
        HEAD | {"leaderElection": {"retryPeriod": "2"}},
        "f:leaderElection.retryPeriod: must be a duration such as 15s, 5m or 1m30s, not '2'",
    ),
    "text for a list": (HEAD | {"tls": {"cipherSuites": "a"}}, "f:tls.cipherSuites: must be a list, not 'a'"),
    "a number in a list": (
        HEAD | {"tls": {"cipherSuites": ["a", 2]}},
        'f:tls.cipherSuites[1]: must be a string, not 2: put it in quotes, "2"',
    ),
    "a list for a section": (
        HEAD | {"clientConnection": []},
        "f:clientConnection: must be a mapping with keys among qps, burst, not []",
    ),
    "out of range": (
        HEAD | {"webhook": {"port": 70000}},
        "f:webhook.port: input should be less than or equal to 65535, not 70000",
    ),
}


def error_of(raw: Any) -> ConfigError:
    with pytest.raises(ValidationError) as error:
        Configuration.model_validate(raw)
    return config_error(error.value, lambda keys: f"f:{'.'.join(keys)}")


@pytest.mark.parametrize(("raw", "line"), LINES.values(), ids=LINES.keys())
def test_one_line_has_the_error_its_path_and_a_remedy(raw: Any, line: str) -> None:
    assert error_of(raw).lines == (line,)


def test_every_error_has_a_line() -> None:
    error = error_of(HEAD | {"webhook": {"port": "x", "prot": 1}, "health": 5})
    assert len(error.lines) == 3
    assert str(error) == "\n".join(error.lines)
