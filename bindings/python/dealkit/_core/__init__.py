"""What everything here is made of: arguments, options, failures, and what no frame may hold."""
