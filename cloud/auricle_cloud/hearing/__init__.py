"""What devices report of how well they hear: compared, and watched over."""
