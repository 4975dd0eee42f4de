"""Relays that carry new weights from the trainer to the replicas of the engine (docs/schedules.md)."""
