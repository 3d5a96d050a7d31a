"""What commands find out about sets before they print or write."""
