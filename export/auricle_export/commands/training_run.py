"""A training as a command runs it: where its state is kept, what a signal does to it, and what is said at its end."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from auricle.errors import AuricleError
from auricle.files import write_durably
from auricle.packs.pack import pack_bytes
from auricle.speech.sound_faults import count_findings, findings_table
from auricle_export.commands.command_line import command, refuse_unwritable
from auricle_export.commands.pretrain_view import View

if TYPE_CHECKING:
    from auricle.packs.pack import Pack
    from auricle.speech.sound_faults import Finding

INTERRUPTED_CODE = 130
"""Exit code of a command that SIGINT or SIGTERM ended."""
Stopped = Callable[[], bool]
"""Whether a signal asked for the end."""


class HasPack(Protocol):
    """What a training gives."""

    @property
    def pack(self) -> Pack:
        """The pack with what was trained."""
        ...


Done = TypeVar("Done")
Made = TypeVar("Made", bound=HasPack)


@dataclass(frozen=True)
class TrainingRun:
    """A command that trains and writes a pack."""

    ctx: typer.Context
    out: Path
    """The pack to write."""
    state: Path | None
    """The folder that was named for an interrupted training."""
    as_json: bool

    @property
    def folder(self) -> Path:
        """Where an interrupted training is kept: beside the pack unless another folder was named."""
        return self.state if self.state is not None else self.out.with_name(f"{self.out.name}.state")

    def refuse_unwritable(self) -> None:
        """Refuse at once a pack or a state that could not be written after the training."""
        refuse_unwritable(self.out, self.folder)

    def train(
        self, work: Callable[[View, Stopped], Made], write: Callable[[Made], object] | None = None
    ) -> Made | None:
        """Train, and write what came of it (`write`; the pack alone where that is left out).

        None where a signal ended the training: then it was said how to go on.
        """
        done = until_stopped(self.as_json, work, write or (lambda made: self.write(made.pack)))
        if done is None:
            self._say_how_to_go_on()
        return done

    def write(self, pack: Pack) -> None:
        """Write the pack."""
        write_durably(self.out, pack_bytes(pack))

    def conclude(self, facts: Mapping[str, object], findings: Iterable[Finding], show: Callable[[], None]) -> int:
        """Print `facts` with what was found in the sound as JSON, or a table of that and what `show` prints; 0."""
        found = count_findings(findings)
        if self.as_json:
            typer.echo(json.dumps({**facts, "findings": [asdict(row) for row in found]}))
            return 0
        if found:
            typer.echo(findings_table(found), err=True)
        show()
        return 0

    def show(self, pack: Pack) -> None:
        """Print which pack was written where."""
        typer.echo(f"{pack.manifest.name} {pack.identity[:12]} -> {self.out}")

    def facts_of(self, pack: Pack) -> dict[str, object]:
        """The pack that was written, as `--json` names it."""
        return {"pack": pack.manifest.name, "identity": pack.identity, "path": str(self.out)}

    def _say_how_to_go_on(self) -> None:
        again = command(self.ctx, self.folder)
        if self.as_json:
            typer.echo(json.dumps({"interrupted": True, "go_on": again}))
        else:
            typer.echo(f"Interrupted; every whole epoch is kept. Go on with: {again}")


def until_stopped(
    as_json: bool, work: Callable[[View, Stopped], Done], write: Callable[[Done], object] = lambda done: None
) -> Done | None:
    """What `work` gives, once `write` wrote it; None where it failed after a signal.

    Any failure after a signal counts as the interruption: a voice's process that got the Ctrl-C fails too.
    """
    with View(as_json) as view, stop_on_signal() as stopped:
        try:
            done = work(view, stopped)
        except AuricleError:
            if not stopped():
                raise
            return None
        write(done)
    return done


@contextmanager
def stop_on_signal() -> Iterator[Stopped]:
    """Whether SIGINT or SIGTERM came; a second one ends the process at once."""
    asked = threading.Event()

    def ask(number: int, _: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
