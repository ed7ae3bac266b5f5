"""An own wake word by one command: from its text to a pack, and a page that says how well the pack hears it."""
