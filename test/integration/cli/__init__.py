"""The commands for people, called as people call them, against the running product."""
