"""The C library: how it is compiled and found; training of devices and the coordinator's sums use it where it is."""
