"""Sensors: what starts runs, and what says why one failed."""
