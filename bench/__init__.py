"""What is measured; a package of its own, since another of the same name may be installed."""
