"""agentic_gym.envs (see docs/architecture.md)."""

if __name__ != "agentic_gym.envs":
    raise ImportError("this folder is the package agentic_gym.envs: import agentic_gym.envs")
