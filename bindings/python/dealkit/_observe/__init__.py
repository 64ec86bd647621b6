"""What is logged, traced and measured of a call."""
