"""The subcommands of `lws`, one file for each."""
