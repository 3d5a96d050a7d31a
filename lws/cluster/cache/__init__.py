"""The newest known state of every watched object."""
