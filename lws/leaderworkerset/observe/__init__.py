"""What is read before a set or a group is planned, and what is remembered of writes."""
