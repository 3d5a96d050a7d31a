"""Everything that one pass needs to know, read into one snapshot."""
