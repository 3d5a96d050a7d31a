"""How two objects differ, and which patch leads from one to the other."""
