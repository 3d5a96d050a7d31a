"""Decisions about one request: an object in, the object or errors out. Pure."""
