"""agentic_gym.rewards (see docs/architecture.md)."""

if __name__ != "agentic_gym.rewards":
    raise ImportError("this folder is the package agentic_gym.rewards: import agentic_gym.rewards")
