"""Archives of whatever is put into them."""

from __future__ import annotations

import io
import tarfile


def tar_of(*members: tuple[tarfile.TarInfo | str, bytes], form: int = tarfile.DEFAULT_FORMAT) -> bytes:
    """A tar; a name stands for a plain file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as file:
        for entry, content in members:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return made.getvalue()
