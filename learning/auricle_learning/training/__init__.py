"""Training of a device's models on its own clips in a round."""
