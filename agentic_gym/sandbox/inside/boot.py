"""Entry point inside the sandbox: ``python -I -S boot.py supervisor|runner``."""

import sys

if __name__ == "__main__":
    # -I hides the script's own folder from imports. Four levels up holds agentic_gym/sandbox/inside.
    sys.path.append(__file__.rsplit("/", 4)[0])
    if sys.argv[1] == "runner":
        from agentic_gym.sandbox.inside import runner

        runner.main()
    else:
        from agentic_gym.sandbox.inside import supervisor

        supervisor.main()
