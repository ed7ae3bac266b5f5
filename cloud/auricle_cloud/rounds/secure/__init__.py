"""Rounds whose updates become known as a sum alone (docs/privacy.md): keys, shares, masked updates, revealed shares."""
