"""From updates to the next model: cohorts, rules, the server's optimizer. Pure: no database, no network."""
