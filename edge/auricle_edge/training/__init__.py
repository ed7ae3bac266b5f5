"""What a device keeps of its training, and the judge of its rounds."""
