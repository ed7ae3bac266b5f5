"""Training of a device's models on its own clips, and the judge of a round."""
