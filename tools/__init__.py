"""What keeps the project in order; a package of its own, since another of the same name may be installed."""
