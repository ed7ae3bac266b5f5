"""Where detections go: standard output, a command, the home's MQTT broker, Wyoming clients."""
