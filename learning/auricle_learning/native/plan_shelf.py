"""Plans on disk, beside the compiled library: planning takes half a second, reading a plan two milliseconds.

A pack is pinned by its digest and does not change, so plans lie outside of it. The name of a plan's file is a digest of
everything that it is made of: the graph's file, what the pack says of its inputs, the batch, the program's format, and
the sources of planner and checks. So an older plan is never taken for a newer one, and of two packs that have the same
graph one has the other's plan.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from functools import cache
from pathlib import Path

import msgspec

import auricle
import auricle.checks
from auricle.checks.interface_facts import InterfaceFacts
from auricle.errors import AuricleError, StorageError
from auricle.files import open_kept, read_kept, write_whole
from auricle.packs.pack import Graph, Pack
from auricle_learning.native.library import FORMAT_VERSION, native_folder, refuse_foreign
from auricle_learning.native.plan import LARGEST_FILE, Plan, UnsoundPlanError, plan_bytes, plan_of

log = logging.getLogger("auricle.edge")

MOST_STORED = 100
"""Plans that stay, the newest ones: those of a pack's steps and of its models for a few sizes of a batch."""
_PATTERN = "plan-*"


class PlanShelf:
    """The place of one graph's plan on disk.

    Parameters
    ----------
    pack, graph, batch
        The graph, and for how many samples it is planned.
    """

    def __init__(self, pack: Pack, graph: Graph, batch: int) -> None:
        facts = InterfaceFacts(pack, graph, batch)
        self._file, self._inputs, self._outputs = graph.file, facts.inputs(), facts.outputs()
        entry = next(entry for entry in pack.manifest.files if entry.path == graph.file)
        made_of = (entry.sha256, graph, self._inputs, self._outputs, facts.batch, FORMAT_VERSION, _sources())
        self.made_of = hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()
        self.path = native_folder() / f"plan-{self.made_of[:32]}"

    def read(self) -> Plan | None:
        """The plan; None where there is none, or it is damaged or may have been changed by somebody else."""
        try:
            with open_kept(self.path) as file:
                refuse_foreign(self.path)
                data = file.read(LARGEST_FILE + 1)
            return plan_of(data, self.made_of, self._inputs, self._outputs)
        except FileNotFoundError:
            return None
        except (OSError, AuricleError, UnsoundPlanError) as reason:
            log.info("The plan %s of %s is not used: %s.", self.path, self._file, reason)
            return None

    def write(self, plan: Plan) -> None:
        """Keep a plan for the next start; where that is not possible, nothing is lost but time."""
        data = plan_bytes(plan, self.made_of)
        if len(data) > LARGEST_FILE:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.path, data, durable=False, mode=0o600)
            _drop_old(self.path.parent)
        except (OSError, StorageError) as reason:
            log.info("The plan of %s is not kept: %s.", self._file, reason)


def _drop_old(folder: Path) -> None:
    """Leave no more than the newest plans."""
    made = []
    for path in folder.glob(_PATTERN):
        with contextlib.suppress(OSError):  # another process may have dropped it
            made.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(made)[:-MOST_STORED]:
        path.unlink(missing_ok=True)


@cache
def _sources() -> str:
    """A digest of all that decides what a plan is, beside its graph."""
    found = hashlib.sha256(auricle.__version__.encode())
    for folder in (Path(__file__).parent, *map(Path, auricle.checks.__path__)):
        for path in sorted(folder.glob("*.py")):
            found.update(path.name.encode() + b"\0" + read_kept(path))
    return found.hexdigest()
