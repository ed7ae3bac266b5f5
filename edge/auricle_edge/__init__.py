"""The part that runs on the board: features, clips, training, the link to the fleet."""
