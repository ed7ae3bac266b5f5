"""What gets an agent onto boards: their profiles, and what is written for them. Nothing here needs PyTorch."""
