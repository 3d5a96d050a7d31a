"""Prove each part of the API by a test: `make conformance`."""
