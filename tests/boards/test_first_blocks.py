"""README's starts and the first block of each quick start, typed on a system on which nothing was installed before."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from tools import run_docs
from tools.doc_pages import ROOT, STARTS, first_commands

from tests.arm64.emulation import UnavailableError
from tests.boards.bare import SYSTEMS, Typed, bare_system, type_all
from tests.boards.conftest import progress
from tests.boards.roots import Root

pytestmark = [pytest.mark.boards, pytest.mark.timeout(2400)]

PAGES = [str(page.relative_to(ROOT)) for page in STARTS]
INSTALLS = re.compile(r"\b(apt|pip) install\b|^make\b")
LACKS = {
    r"^auricle edge devices": "No microphone",
    r"^auricle edge doctor": "microphone",
    r"^auricle edge run": "microphone",
    r"^auricle flash image": "raspios.img.xz",
}
"""Commands that need what such a root lacks, and a word of the sentence in which they say so."""
NEVER = re.compile(
    r"externally-managed|command not found|No such file or directory: 'auricle'|PortAudio|nothing listens|Traceback"
)


@pytest.fixture
def bare(request: pytest.FixtureRequest) -> Iterator[Root]:
    """A system by its name; skips, saying why, where its archive cannot be reached."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed: apt install util-linux")
    try:
        with bare_system(request.param, progress) as root:
            yield root
    except UnavailableError as error:
        pytest.skip(f"no {request.param}: {error}")


def wrong(typed: Typed) -> bool:
    """Whether a command did not what its page promises, as far as such a root can."""
    lacks = next((word for pattern, word in LACKS.items() if re.match(pattern, typed.command)), None)
    if NEVER.search(typed.text) or typed.code < 0:
        return True
    return typed.code != 0 and (lacks is None or lacks not in typed.text)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("bare", SYSTEMS, indirect=True)
def test_the_first_block_works_on_a_bare_system(bare: Root, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGS", run_docs.SHORT)
    typed = type_all(bare, first_commands(ROOT / page), INSTALLS)
    assert [f"{each.command}: {each.code}\n{each.text[-2000:]}" for each in typed if wrong(each)] == []
