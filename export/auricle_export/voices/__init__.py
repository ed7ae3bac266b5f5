"""Sources of synthetic voices, each a file: what says a text, under which licence, and what it needs."""
