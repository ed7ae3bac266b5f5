"""The few operations that rules are made of, on the processor or on a GPU."""
