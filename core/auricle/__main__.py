"""`python -m auricle`."""

from auricle.process.cli import entry

entry()
