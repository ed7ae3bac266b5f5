"""`python -m auricle`."""

from auricle.cli import entry

entry()
