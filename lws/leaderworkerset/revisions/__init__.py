"""The history of a set: bytes, keys and ControllerRevisions."""
