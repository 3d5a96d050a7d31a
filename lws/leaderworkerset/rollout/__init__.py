"""Move a set from one revision, or number of groups, to another."""
