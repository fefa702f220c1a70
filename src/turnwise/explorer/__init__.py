"""The explorer: look at trajectories in a browser."""
