"""What every process of the project needs: the command line, its ending, signals, a check of itself."""
