"""How large what a secure sum sends is: what messages check without the arithmetic."""

from __future__ import annotations

KEY_BYTES = 32
TAG_BYTES = 16
"""Bytes by which sealing makes a message longer."""
SHARE_BYTES = 33
"""Of a share."""
LEVELS = 32767
"""A value of the bound itself becomes this."""
MOST = (1 << 31) // LEVELS
"""Devices whose sum cannot leave the range of 32 bits."""
