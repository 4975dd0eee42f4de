"""Rollout schedules: pure state machines, importable without torch."""
