"""The two files by which a Raspberry Pi boots, with what a board and a fleet add: `cmdline.txt` and `config.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from auricle_export.flash.image.partitions import ImageError

REPLACED = (
    re.compile(r"ds=nocloud(?:-net)?(?:;.*)?"),
    re.compile(r"cfg80211\.ieee80211_regdom=.*"),
    re.compile(r"systemd\.run(?:_success_action|_failure_action)?=.*"),
    re.compile(r"systemd\.unit=kernel-command-line\.target"),
)
"""Parameters of which there may be one: the image's own gives way."""


def cmdline(text: str, added: Iterable[str]) -> str:
    """The kernel's command line with more parameters, each once, in one line as the firmware wants it.

    Raises
    ------
    ImageError
        The line names no root: it is not that of a system that boots.

    Sources
    -------
    Raspberry Pi documentation, "Kernel command line (cmdline.txt)": one line, no line breaks.
    """
    words = [word for word in text.split() if not any(kind.fullmatch(word) for kind in REPLACED)]
    if not any(word.startswith("root=") for word in words):
        raise ImageError("The cmdline.txt of the image names no root: take the image of a Raspberry Pi OS.")
    return " ".join(dict.fromkeys((*words, *added))) + "\n"


def config(text: str, added: Iterable[str]) -> str:
    """`config.txt` with more lines, each once, where every board heeds them.

    Lines before the first filter and those under `[all]` count for every board; a new one goes under an `[all]` at the
    end.

    Sources
    -------
    Raspberry Pi documentation, "Conditional filters" of config.txt.
    """
    present, everywhere = set(), True
    for line in text.splitlines():
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("[") and bare.endswith("]"):
            everywhere = bare == "[all]"
        elif everywhere:
            present.add(bare)
    missing = [line for line in dict.fromkeys(added) if line not in present]
    if not missing:
        return text
    return "\n".join([text.rstrip("\n"), "", "[all]", *missing]).lstrip("\n") + "\n"
