"""Decisions about one group: a leader pod and its workers. Pure."""
