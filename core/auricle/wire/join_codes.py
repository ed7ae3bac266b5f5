"""The code by which devices join a home, as people read and type it; what it does is in `auricle.wire.joining`."""

from __future__ import annotations

import re
import secrets

from auricle.errors import DataError

SERVICE = "_auricle._tcp.local."
"""Under which a hub is announced in its network (RFC 6763)."""
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Of Crockford's base 32: nothing that reads as something else."""
CODE_LENGTH = 8
_READ_AS = str.maketrans("OIL", "011", " -")


def draw_code() -> str:
    """A new code, 40 random bits as eight characters."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def show_code(code: str) -> str:
    """A code as people read it, e.g. `K7QM-4T2X`."""
    return f"{code[:4]}-{code[4:]}"


def read_code(text: str) -> str:
    """A code as somebody typed it; DataError where it cannot be one."""
    code = text.upper().translate(_READ_AS)
    if not re.fullmatch(f"[{ALPHABET}]{{{CODE_LENGTH}}}", code):
        raise DataError("A hub's code has eight letters and digits, such as K7QM-4T2X.")
    return code
