"""The C library, how it is compiled and found, and the runtime `native`: a pack's graphs as flat programs for it.

Training of devices and the coordinator's sums use the library where it is.
"""
