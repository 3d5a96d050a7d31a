"""Tests of lws.leaderworkerset.admission.validation: PVC templates that are valid, and that do not change."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from test.unit.lws.leaderworkerset.admission.test_validation import make_set

CLAIMS = "spec.leaderWorkerTemplate.volumeClaimTemplates"
RETENTION = "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy"
LABEL = "a lowercase RFC 1123 label must consist of"


def claim(name: Any = "data", storage: Any = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}} if storage else {}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources} | spec,
    }


def with_claims(*claims: dict[str, Any], retention: Any = None, **options: Any) -> dict[str, Any]:
    lws = make_set(**options)
    lws["spec"]["leaderWorkerTemplate"] |= {"volumeClaimTemplates": list(claims)}
    if retention is not None:
        lws["spec"]["leaderWorkerTemplate"]["persistentVolumeClaimRetentionPolicy"] = retention
    return lws


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(with_claims(), [], id="none"),
        pytest.param(with_claims(claim(), claim("logs")), [], id="two"),
        pytest.param(with_claims(claim(None)), [f"{CLAIMS}[0].metadata.name: Required"], id="no name"),
        pytest.param(
            with_claims(claim("my.data")),
            [f'{CLAIMS}[0].metadata.name: Invalid value: "my.data": {LABEL}'],
            id="invalid volume name",
        ),
        pytest.param(
            with_claims({"metadata": {"name": "data"}}),
            [
                f"{CLAIMS}[0].spec.accessModes: Required value: ",
                f"{CLAIMS}[0].spec.resources.requests.storage: Required value: ",
            ],
            id="no spec",
        ),
        pytest.param(
            with_claims(retention={"whenDeleted": "Delete", "whenScaled": "Retain"}),
            [],
            id="valid retention policy",
        ),
        pytest.param(with_claims(retention={"whenDeleted": ""}), [], id="empty retention policy"),
        pytest.param(
            with_claims(retention={"whenDeleted": "delete", "whenScaled": "Keep"}),
            [
                f'{RETENTION}.whenDeleted: Invalid value: "delete": must be Retain or Delete',
                f'{RETENTION}.whenScaled: Invalid value: "Keep": must be Retain or Delete',
            ],
            id="invalid retention policy",
        ),
    ],
)
def test_claims(raw: dict[str, Any], expected: list[str]) -> None:
    errors = [str(error) for error in errors_in(raw)]
    assert len(errors) == len(expected)
    for message, beginning in zip(errors, expected, strict=True):
        assert message.startswith(beginning)


def test_a_duplicate_claim_is_accepted_with_a_warning() -> None:
    """A StatefulSet uses the last template of a name, so the set runs under upstream."""
    raw = with_claims(claim(), claim("logs"), claim())
    assert errors_in(raw) == []
    assert warnings_in(raw) == [
        f'{CLAIMS}[0].metadata.name: "data" is also the name of a later template, which is used: remove one'
    ]
    assert warnings_in(with_claims(claim(), claim("logs"))) == []


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        pytest.param(with_claims(claim(), replicas=9), with_claims(claim()), False, id="as before"),
        pytest.param(with_claims(claim(storage="1024Mi")), with_claims(claim()), False, id="respelled"),
        pytest.param(
            with_claims(claim(volumeMode="Filesystem")),
            with_claims(claim()),
            False,
            id="a default written out",
        ),
        pytest.param(with_claims(claim(storage="2Gi")), with_claims(claim()), True, id="larger"),
        pytest.param(with_claims(claim(), claim("logs")), with_claims(claim()), True, id="claim added"),
        pytest.param(with_claims(), with_claims(claim()), True, id="claim removed"),
        pytest.param(
            with_claims(claim(), retention={"whenDeleted": "Delete"}),
            with_claims(claim()),
            False,
            id="retention policy changed",
        ),
    ],
)
def test_claim_templates_are_immutable(new: dict[str, Any], old: dict[str, Any], refused: bool) -> None:
    errors = [str(error) for error in errors_in(new, old)]
    assert len(errors) == int(refused)
    assert all(message.startswith(f"{CLAIMS}: Invalid value: ") for message in errors)
    assert all(
        "field is immutable: StatefulSets cannot change their claim templates" in error for error in errors
    )


def test_stored_invalid_claims_do_not_block_updates() -> None:
    bad = claim("my.data")
    assert errors_in(with_claims(bad, replicas=9), with_claims(bad)) == []
