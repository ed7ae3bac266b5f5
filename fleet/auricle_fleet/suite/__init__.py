"""Many runs as one experiment: methods, conditions and seeds, their tables and curves (docs/suites.md)."""
