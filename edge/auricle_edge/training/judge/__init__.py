"""The judge of a round: whether what was learnt may be kept and sent, by held-out clips and by streams of sound."""
