"""Changes that commands make to sets."""
