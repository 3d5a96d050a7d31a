"""Plans carried out: writes, Events, and what is remembered of them."""
