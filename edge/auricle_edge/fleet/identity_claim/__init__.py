"""How this device gets its certificate with a one-time token, and renews it."""
