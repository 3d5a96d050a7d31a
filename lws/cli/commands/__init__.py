"""One command of `lws` per file."""
