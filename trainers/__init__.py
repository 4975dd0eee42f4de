"""agentic_gym.trainers (see docs/architecture.md)."""

if __name__ != "agentic_gym.trainers":
    raise ImportError(
        "this folder is the package agentic_gym.trainers: import agentic_gym.trainers"
    )
