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


def test_a_child_says_what_it_is_and_what_it_belongs_to() -> None:
    slices = {"disaggregatedset.x-k8s.io/slice": "1"}
    assert selected_labels("llm", DECODE) == {**SELECTED, **slices}
    assert child_labels("llm", DECODE) == {**SELECTED, **slices, "app": "llm-1-decode"}


def test_a_legacy_child_knows_no_slice() -> None:
    assert selected_labels("llm", LEGACY) == SELECTED
    assert child_labels("llm", LEGACY) == {**SELECTED, "app": "llm-decode"}


def test_a_scaler_is_of_all_slices_and_revisions() -> None:
    assert role_labels("llm", "decode") == {
        "disaggregatedset.x-k8s.io/name": "llm",
        "disaggregatedset.x-k8s.io/role": "decode",
    }
