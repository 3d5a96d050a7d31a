"""Move a set from one revision, or from one number of groups, to another."""
