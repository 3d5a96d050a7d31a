"""Sets of thousands of groups: what one manager, or several that share, take for them."""
