"""Mistakes that people make, as records, and what runs them."""
