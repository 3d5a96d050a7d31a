"""Which test proves each part of the API? `make conformance` writes docs/reference/compatibility.md."""
