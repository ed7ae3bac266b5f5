"""Packs: a task, its models, what they were trained on and how to listen with them."""
