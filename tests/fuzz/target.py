"""What is fuzzed: a decoder, what it may answer with, valid examples of what it decodes, and its bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from auricle.errors import AuricleError

CORPUS = Path(__file__).parent / "corpus"
"""A folder a target: examples that are decoded, and `found-*`: inputs that once were findings."""
FOUND = "found-"

Form = Literal["binary", "text", "json", "msgpack", "toml", "protobuf"]
Examples = Mapping[str, bytes]


@dataclass(frozen=True)
class Target:
    """One decoder."""

    name: str
    decode: Callable[[bytes], object]
    """Takes any bytes; an AssertionError in it is a finding as well."""
    modules: tuple[str, ...]
    """Whose lines `--coverage` counts."""
    examples: Callable[[], Examples]
    """Valid ones, made by the project's own code."""
    form: Form = "binary"
    refusals: tuple[type[Exception], ...] = (AuricleError,)
    """What it may raise, as its documentation says."""
    tokens: tuple[bytes, ...] = ()
    """Words that the decoder looks for."""
    seconds: float = 1.0
    """Of processor time that one input may take."""
    megabytes: int = 64
    """By which one input may raise the memory of the process."""
    largest: int = 1 << 16
    """Bytes of an input."""
    mend: Callable[[bytes], bytes] | None = None
    """Puts a changed input in order where nothing of it would be looked at otherwise, such as its checksums."""

    @property
    def corpus(self) -> Path:
        """Where its examples lie."""
        return CORPUS / self.name

    def seeds(self) -> list[bytes]:
        """Its examples and former findings, as they lie in the tree."""
        return [path.read_bytes() for path in sorted(self.corpus.iterdir())]


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    *modules: str,
    examples: Callable[[], Examples],
    refusals: tuple[type[Exception], ...] = (AuricleError,),
    tokens: Iterable[bytes] = (),
    **more: Any,
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Enter a function into `TARGETS`; a string of `modules` may name several."""
    named = tuple(dict.fromkeys(" ".join(modules).split()))

    def enter(decode: Callable[[bytes], object]) -> Callable[[bytes], object]:
        assert name not in TARGETS, name
        TARGETS[name] = Target(name, decode, named, examples, refusals=refusals, tokens=tuple(tokens), **more)
        return decode

    return enter
