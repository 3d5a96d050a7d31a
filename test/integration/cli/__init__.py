"""The commands of `lws`, called as users call them, against the running product."""
