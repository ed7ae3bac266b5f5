"""Packs built from models: PyTorch modules, step graphs, starts, negatives."""
