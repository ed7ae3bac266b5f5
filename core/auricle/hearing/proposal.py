"""From where on a second stage is asked: what settings say, without NumPy."""

from __future__ import annotations

PROPOSAL_SHARE = 0.5
"""Share of a keyword's threshold from which it is proposed: that of a device whose settings say nothing."""
