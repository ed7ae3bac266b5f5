"""What a board says of itself, and whether it may work now."""
