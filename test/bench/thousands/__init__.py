"""What sets of thousands of groups cost one manager, or several that share them."""
