"""The software-engineering environment: tasks, bug injection, grading.

Importing it registers ``agentic_gym/SWE-v0``, and loads nothing else.
"""

from agentic_gym.registration import register

register("agentic_gym/SWE-v0", "agentic_gym.envs.swe.env:SWEEnv", max_turns=16)
