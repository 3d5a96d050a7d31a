"""Facts as text for a terminal."""
