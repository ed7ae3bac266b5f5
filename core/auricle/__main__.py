"""`python -m auricle`."""

from auricle.process.start import entry

entry()
