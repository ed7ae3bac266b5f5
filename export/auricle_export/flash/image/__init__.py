"""Card images: one a device, made from a system's image without root and without loop devices."""
