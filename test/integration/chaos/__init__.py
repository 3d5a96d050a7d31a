"""What must hold whatever fails: read off the API server's own record, by a checker of its own."""
