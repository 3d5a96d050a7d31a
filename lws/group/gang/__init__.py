"""Groups that are placed as a whole, by one scheduler or another."""
