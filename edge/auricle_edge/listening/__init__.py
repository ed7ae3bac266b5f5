"""From sound to detections: capture, the detector, and who is told."""
