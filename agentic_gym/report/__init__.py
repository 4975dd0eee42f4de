"""The report of a run: one HTML file, made from ``run.sqlite`` and ``config.yaml`` alone.

Everything that agents wrote is untrusted: it is escaped, characters that a page must not hold are shown
as symbols, and the page forbids itself scripts and the network.
"""

from agentic_gym.report.page import write_report

__all__ = ["write_report"]
