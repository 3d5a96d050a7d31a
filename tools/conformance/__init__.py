"""Which test proves each part of the API? docs/compatibility.md says so, `make conformance` writes it."""
