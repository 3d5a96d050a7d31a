"""Plan the objects that a set controls: create, repair, delete."""
