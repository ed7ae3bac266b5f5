"""What a run leaves when it ends: the summary, the report, the pack, and after every round the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle import __version__
from auricle.files import write_durably
from auricle.packs.pack import Pack, archive_bytes
from auricle.speech.sound_faults import count_findings
from auricle.wire.tensors import Flat
from auricle_cloud.settings import RoundDone
from auricle_fleet.population.attacks import Attackers
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.run_model import read_plugin, write_plugin
from auricle_fleet.population.start import Start
from auricle_fleet.results.card import card
from auricle_fleet.results.metrics import write_summary
from auricle_fleet.results.report import write_report
from auricle_fleet.results.result import DeviceRow, RoundRow, Summary, prolonged
from auricle_fleet.results.run_folder import RunFolder
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.training_runtime import TrainingRuntime

OF_LAST_ROUND = (
    *("plugin_accuracy_unseen", "plugin_accuracy_validation", "personal_accuracy"),
    *("false_accepts", "negative_seconds", "false_accepts_per_hour"),
)
"""Fields of a summary that are the last round's, None without a round."""


@dataclass(frozen=True, eq=False)
class Ran:
    """A run that is over, or was interrupted."""

    settings: FleetSettings
    trained_by: TrainingRuntime
    left: Mapping[str, str]
    """Why onnxruntime ran a graph that the runtime cannot, by the graph's file."""
    chosen: tuple[str, ...]
    """What the settings left open, each a sentence."""
    data: FleetData
    start: Start
    judged_seconds: float
    """Of negatives that devices are judged on."""
    judged: tuple[int, int]
    """Clips of unseen speakers that plug-ins were measured on, and how many speakers these are."""
    central: float | None
    """Accuracy of the central training; None where there was none."""
    interrupted: bool
    central_precision: tuple[float, ...] | None = None
    """Likewise, see `Summary.keyword_precision`."""
    confusion: NDArray[np.int64] | None = None
    """(L, L) of the last plug-in, see `Summary.confusion`."""
    precision: tuple[float, ...] | None = None
    """Of the last plug-in, see `Summary.keyword_precision`."""
    held_out_precision: tuple[float, ...] | None = None
    attackers: tuple[Attackers, ...] = ()

    def summary(self, rows: Sequence[RoundRow]) -> Summary:
        """What it came to, by its rounds."""
        settings, data, start, last = self.settings, self.data, self.start, rows[-1] if rows else None
        return Summary(
            **{name: getattr(last, name, None) for name in OF_LAST_ROUND},
            central_accuracy_unseen=self.central,
            start=settings.start,
            pretrain=settings.pretrain,
            start_accuracy_unseen=start.accuracy,
            start_false_accepts_per_hour=None if start.accepts is None else start.accepts.per_hour,
            start_false_accepts=None if start.accepts is None else start.accepts.false_accepts,
            judge=settings.judges,
            judged_seconds=round(self.judged_seconds, 1),
            refused_rounds=sum(len(row.refused) for row in rows),
            refusing_devices=len({name for row in rows for name in row.refused}),
            devices=len(data.devices),
            rounds=0 if last is None else last.round,
            rounds_planned=settings.rounds,
            interrupted=self.interrupted,
            seconds=0.0 if last is None else last.seconds_total,
            bytes_up=0 if last is None else last.bytes_up,
            bytes_down=0 if last is None else last.bytes_down,
            words=data.pack.labels,
            training_clips=data.training_clips,
            unseen_clips=self.judged[0],
            unseen_speakers=self.judged[1],
            skipped_files=len(data.skipped),
            findings=tuple(count_findings(data.findings)),
            method=start.preset.method.name,
            preset=settings.preset,
            rates=asdict(start.preset.rates()),
            seed=settings.seed,
            pack=data.pack.identity,
            version=__version__,
            heard_before=start.heard_before,
            confusion=None if self.confusion is None else tuple(tuple(map(int, row)) for row in self.confusion),
            label_clips=tuple(map(int, data.label_clips)),
            keyword_precision=self.precision,
            held_out_precision=self.held_out_precision,
            start_precision=start.precision,
            central_precision=self.central_precision,
            attackers=self.attackers,
            detect=settings.detect,
            runtime=self.trained_by.name,
            runtime_reason=self.trained_by.reason,
            chosen=self.chosen,
            left_to_onnxruntime=dict(self.left),
        )


def write_results(
    out: Path,
    pack: Pack,
    summary: Summary,
    rounds: Sequence[RoundRow],
    devices: Sequence[DeviceRow] = (),
    settings: Mapping[str, object] | None = None,
) -> RunFolder:
    """Write pack, summary, report and card of a run, each whole or not at all; where they lie.

    Parameters
    ----------
    rounds
        All that there were.
    devices
        The table of devices, for the report.
    settings
        Those that differ from the defaults, for the report.
    """
    paths = RunFolder(out)
    write_durably(paths.pack, _pack_bytes(pack))
    write_summary(out, msgspec.to_builtins(summary))
    write_report(out, summary, rounds, devices, settings)
    write_durably(paths.card, card(summary, pack, devices, settings, prolonged(rounds)).encode())
    return paths


_newest_pack: list[tuple[str, bytes]] = []


def _pack_bytes(pack: Pack) -> bytes:
    """The bytes of a pack; those of the newest are kept, since packing takes seconds and a suite's runs share one."""
    if not _newest_pack or _newest_pack[0][0] != pack.identity:
        _newest_pack[:] = [(pack.identity, archive_bytes(pack))]
    return _newest_pack[0][1]


def write_model(out: Path, pack: Pack, done: RoundDone) -> None:
    """Write the shared plug-in after a round."""
    write_plugin(RunFolder(out).model, pack, done.model, {"round": str(done.number)})


def read_model(out: Path, pack: Pack) -> Flat | None:
    """Read the plug-in (P,) that `write_model` wrote; None where no round has ended.

    Raises
    ------
    StorageError, PackError
        As of `read_plugin`.
    """
    path = RunFolder(out).model
    return read_plugin(path, pack) if path.exists() else None
