"""Plan the objects that a set controls: create, restore, delete."""
