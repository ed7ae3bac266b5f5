"""What devices are told to install: signed releases, and rollouts of them."""
