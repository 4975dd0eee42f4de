"""Engines: token in, token out."""
