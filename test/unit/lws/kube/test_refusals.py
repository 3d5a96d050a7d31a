"""Classification of rejections by the API server, with the messages of Kubernetes 1.36."""

from __future__ import annotations

import pytest

from lws.kube.conditions import Rejection

POD = "create Pod demo-0 in StatefulSet demo failed error: "


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(
            f'{POD}pods "demo-0" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, '
            f"limited: pods=2",
            "QuotaExceeded",
            id="quota",
        ),
        pytest.param(
            f'{POD}pods "demo-0" is forbidden: failed quota: gpus: must specify limits.cpu for: main',
            "QuotaExceeded",
            id="quota that asks for limits",
        ),
        pytest.param(
            f'{POD}pods "demo-0" is forbidden: error looking up service account default/nobody: '
            f'serviceaccount "nobody" not found',
            "ServiceAccountMissing",
            id="ServiceAccount",
        ),
        pytest.param(
            f'{POD}admission webhook "policy.example.com" denied the request: no latest images',
            "AdmissionDenied",
            id="webhook",
        ),
        pytest.param(
            f"{POD}pods \"demo-0\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
            f"request: no",
            "AdmissionDenied",
            id="policy",
        ),
        pytest.param(
            f'{POD}pods "demo-0" is forbidden: violates PodSecurity "restricted:latest": hostNetwork',
            "AdmissionDenied",
            id="pod security",
        ),
        pytest.param(
            f'{POD}Internal error occurred: failed calling webhook "mpod.kb.io": connection refused',
            "WebhookFailed",
            id="webhook down",
        ),
        pytest.param(f"{POD}something new", "FailedCreate", id="anything else"),
    ],
)
def test_reasons(words: str, reason: str) -> None:
    assert Rejection("StatefulSet demo is short of pods", words).reason == reason


def test_a_rejection_has_a_reason_and_the_rejected_write() -> None:
    met = Rejection("cannot update StatefulSet demo", "no", otherwise="FailedUpdate")
    assert (met.reason, met.message) == ("FailedUpdate", "cannot update StatefulSet demo: no")
