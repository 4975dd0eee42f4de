"""A cluster in simulated time, driven by the schedules of real runs (docs/simulation.md)."""
