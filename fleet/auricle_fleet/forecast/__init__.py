"""What a run will take, known before it begins: its crowd, this machine's speed and room, and whether it fits."""
