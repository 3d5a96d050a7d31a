"""Default, validate and mutate the object of one admission request. Pure functions."""
