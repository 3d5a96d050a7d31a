"""What befalls the product on bad days, and what it must come through without help."""
