"""Who may connect: a certificate authority, claims of devices, revocation, and what brokers are told of it."""
