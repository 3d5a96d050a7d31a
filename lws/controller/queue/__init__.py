"""One pass per key at a time, in a fair order."""
