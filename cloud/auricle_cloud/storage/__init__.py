"""What a coordinator remembers: tables, records and content-addressed files."""
