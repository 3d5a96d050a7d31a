"""What must hold during any fault, checked against the API server's audit log by independent code."""
