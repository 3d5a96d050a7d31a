"""What may stand behind the name of a command: arguments, options, and what shells offer for them."""
