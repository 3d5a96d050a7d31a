"""May a set be stored? One file per subject."""
