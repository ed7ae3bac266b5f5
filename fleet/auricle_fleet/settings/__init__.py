"""What a fleet run is told."""
