"""Who poisoned a model, and the model without them (FedVSA)."""
