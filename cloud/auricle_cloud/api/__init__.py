"""The HTTP API and the operator's page."""
