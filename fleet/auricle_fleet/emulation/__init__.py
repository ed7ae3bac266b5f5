"""What runs: the engines, and the forecast of what they take."""
