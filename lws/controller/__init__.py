"""kopf, and time."""
