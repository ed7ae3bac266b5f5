"""What `auricle edge calibrate` promises, and what then comes true on other sound of the same kind.

    python bench/calibration.py --data DATA

Single words that are no keyword (`gsc-more`, put together to stretches of a minute) and running speech (`stream-more`)
are split at random into halves, by recording. Thresholds are chosen on one half by the pack's plug-in, as the command
does; the other half counts the false accepts as the detector makes them.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from auricle.errors import DataError
from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import load_pack
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle.speech.features import LogMel
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.calibration import calibrate, read_posteriors
from auricle_edge.listening.detect.decision import Decider
from auricle_edge.listening.detect.recognisers import Posteriors
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import recogniser

Sound = NDArray[np.int16]
WORDS = 60
"""Words of a stretch, each with its second."""


def sounds(data: Path, keywords: frozenset[str]) -> list[Sound]:
    """Stretches of other words, and readers."""
    words = [clip.path for clip in scan_folder(data / "gsc-more").clips if clip.word not in keywords]
    random.Random(0).shuffle(words)
    spoken = [np.concatenate([_read(path) for path in words[at : at + WORDS]]) for at in range(0, len(words), WORDS)]
    return spoken + [_read(path) for path in sorted((data / "stream-more" / "speech").glob("*.flac"))]


def _read(path: Path) -> Sound:
    return np.rint(np.clip(read_audio(path), -1, 1) * 32_767).astype(np.int16)


def accepted(stretches: list[Posteriors], labels: tuple[str, ...], settings: DetectSettings) -> int:
    """Detections in posteriors without keywords, by the detector's own rule."""
    count = 0
    for stretch in stretches:
        decider = Decider(labels, settings)
        count += sum(decider.step(row if row.any() else None) is not None for row in stretch)
    return count


def main(
    data: Annotated[Path, typer.Option(help="Folder with gsc-more and stream-more.")],
    pack: Annotated[str, typer.Option(help="A pack.")] = "gsc12",
    wanted: Annotated[list[float] | None, typer.Option(help="False accepts an hour [6, 12, 24].")] = None,
    splits: Annotated[int, typer.Option(help="Random halves.")] = 20,
    limit: Annotated[int, typer.Option(help="Most stretches; 0: all.")] = 0,
) -> None:
    """Print for each wanted rate what was promised and what came."""
    loaded = load_pack(pack)
    frontend, settings = LogMel(loaded.manifest.task), DetectSettings()
    weights = choose_weights(None, loaded, loaded.manifest.plugin, 0)
    assert weights is not None, "the pack has trained weights"
    recognise = recogniser(choose_runtime("auto", loaded).runtime, loaded.manifest.plugin, weights)
    found = sounds(data, frozenset(loaded.labels))[: limit or None]
    judged = [
        read_posteriors(sound, frontend, loaded.labels, recognise, settings) for sound in track(found, "Listening")
    ]
    hours = sum(map(len, judged)) * settings.hop / 3600
    table = Table(title=f"{hours:.2f} h of {len(judged)} recordings, {splits} random halves; {loaded.manifest.name}")
    for column in ("wanted/h", "by word", "promised/h", "came/h, mean", "largest", "more than wanted", "no promise"):
        table.add_column(column)
    for rate in wanted or [6.0, 12.0, 24.0]:
        rows, seen = [], Counter[str]()
        for seed in range(splits):
            order = random.Random(seed).sample(judged, len(judged))
            half, rest = order[::2], order[1::2]
            try:
                chosen = calibrate(half, {}, loaded.labels, rate, settings)
            except DataError as error:
                raise SystemExit(str(error)) from None
            if not chosen.kept:
                seen["none"] += 1
                continue
            seen["by word"] += chosen.by_word
            tried = DetectSettings(thresholds=dict(chosen.thresholds))
            came = accepted(rest, loaded.labels, tried) / (sum(map(len, rest)) * settings.hop / 3600)
            rows.append((chosen.at_most, came))
        promised, came = np.array(rows).T if rows else (np.array([np.nan]), np.array([np.nan]))
        table.add_row(
            f"{rate:g}",
            f"{seen['by word']} of {splits}",
            f"{promised.mean():.1f}",
            f"{came.mean():.1f}",
            f"{came.max():.1f}",
            f"{int((came > rate).sum())} of {len(rows)}",
            str(seen["none"]),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
