"""What commands know of each kind of set."""
