"""Foundations: arguments, options, errors and threads."""
