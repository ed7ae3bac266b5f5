"""Recordings from elsewhere, as folders that training reads."""
