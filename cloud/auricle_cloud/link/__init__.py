"""What devices send, from the frame to the database."""
