"""The part that runs on the server: rounds, aggregation rules, storage."""
