"""What a pack's graphs and TFLite files have to be before anything runs them."""
