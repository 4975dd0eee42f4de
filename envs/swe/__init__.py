"""The software-engineering environment: tasks, bug injection, grading."""
