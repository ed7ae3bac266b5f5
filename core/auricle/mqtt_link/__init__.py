"""One side's link to an MQTT broker."""
