"""What runs inside a sandbox, shared by every backend: standard library only, Python 3.10 or newer.

A backend makes this folder visible in the sandbox, read-only, and starts ``boot.py`` with
``python -I -S``. Two processes live there for as long as the sandbox does: the supervisor
(:mod:`~agentic_gym.sandbox.inside.supervisor`), which answers the host, and the test runner
(:mod:`~agentic_gym.sandbox.inside.runner`), which has imported pytest and forks for each run.
"""
