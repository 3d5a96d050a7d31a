"""Read the facts of a set or a group before it is planned, and record our own writes."""
