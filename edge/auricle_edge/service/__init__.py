"""The service around a listening device: systemd, its check-up, its diagnosis bundle."""
