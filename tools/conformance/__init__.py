"""Proof of each part of the API by a test: `make conformance` runs them."""
