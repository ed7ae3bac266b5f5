"""What operators can do and see, wherever they are."""
