"""How fast, how light, how quiet: the product and the floor side by side on the local cluster."""
