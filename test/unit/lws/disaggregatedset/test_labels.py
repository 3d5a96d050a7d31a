"""Tests of the labels of children and scalers."""

from __future__ import annotations

from lws.disaggregatedset.names import Identity, child_labels, role_labels, selected_labels

DECODE = Identity(1, "980bcb92", "decode")
LEGACY = Identity(0, "980bcb92", "decode", is_legacy=True)

SELECTED = {
    "disaggregatedset.x-k8s.io/name": "llm",
    "disaggregatedset.x-k8s.io/role": "decode",
    "disaggregatedset.x-k8s.io/revision": "980bcb92",
}


def test_labels_of_a_child() -> None:
    slices = {"disaggregatedset.x-k8s.io/slice": "1"}
    assert selected_labels("llm", DECODE) == {**SELECTED, **slices}
    assert child_labels("llm", DECODE) == {**SELECTED, **slices, "app": "llm-1-decode"}


def test_a_legacy_child_has_no_slice_label() -> None:
    assert selected_labels("llm", LEGACY) == SELECTED
    assert child_labels("llm", LEGACY) == {**SELECTED, "app": "llm-decode"}


def test_a_scaler_has_no_slice_or_revision_label() -> None:
    assert role_labels("llm", "decode") == {
        "disaggregatedset.x-k8s.io/name": "llm",
        "disaggregatedset.x-k8s.io/role": "decode",
    }
