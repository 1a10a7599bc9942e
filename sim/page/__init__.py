"""One self-contained HTML page of predictions: the machine, the schedule played on it, and all numbers."""

from __future__ import annotations
