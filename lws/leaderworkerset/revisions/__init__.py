"""Encode, identify, compare and recover the ControllerRevisions of a set."""
