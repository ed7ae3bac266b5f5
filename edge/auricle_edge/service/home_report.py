"""How a device is, as the home's broker is told it: its parts' own words, and the board's few figures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from auricle.packs.pack import Pack
from auricle_edge.board.sensors import Sensors
from auricle_edge.fleet.agent import Agent
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.events.home_device import Figures, HomeState
from auricle_edge.listening.own_thresholds import OwnThresholds
from auricle_edge.ota.offers import Offers
from auricle_edge.service.hearing_model import HearingModel

FIGURES_SECONDS = 30.0
"""Seconds for which the board's figures are used."""


@dataclass
class BoardFigures:
    """The board's figures, read rarely."""

    sensors: Sensors
    folder: Path
    """Of whose disk the free part counts."""
    _read: tuple[float, Figures] | None = field(default=None, init=False)

    def __call__(self) -> Figures:
        """What was read last, or newly."""
        now = time.monotonic()
        if self._read is None or now - self._read[0] >= FIGURES_SECONDS:
            board = self.sensors.read_board()
            heat = None if board.temperature is None else round(board.temperature)
            self._read = (now, Figures(heat, _tens(board.memory), _tens(_free_disk(self.folder))))
        return self._read[1]


@dataclass(frozen=True)
class HomeReport:
    """What a device's parts say to its home."""

    pack: Pack
    capture: Capture
    offers: Offers
    hearing: HearingModel
    thresholds: OwnThresholds
    agent: Agent | None
    """None for a device without a fleet."""
    rounds: Callable[[], int]
    """Rounds that were trained since the start."""
    figures: BoardFigures

    def __call__(self) -> HomeState:
        """How the device is now."""
        sound, version, agent = self.capture.state, self.offers.version, self.agent
        listens = self.hearing.now
        return HomeState(
            muted=sound.muted,
            level=sound.level_dbfs if sound.running else None,
            rounds=self.rounds(),
            pack=f"{self.pack.manifest.name} {self.pack.identity[:12]}",
            version=version.running,
            latest=version.latest,
            installing=version.installing,
            reason=version.reason,
            thresholds=self.thresholds.of(self.hearing.detect),
            connected=None if agent is None else agent.link.connected,
            fleet="" if agent is None else agent.word.sentence,
            model=listens.candidate.name,
            model_reason=listens.reason,
            problem=self._problem(),
            figures=self.figures(),
        )

    def _problem(self) -> str | None:
        """What keeps it from its work; a closed microphone does not."""
        sound, agent = self.capture.state, self.agent
        if sound.problem is not None and not sound.muted:
            return sound.problem
        return None if agent is None else agent.other_pack


def _tens(size: float | None) -> float | None:
    """To the nearest ten: what changes with each look is no news to a home that records it."""
    return None if size is None else round(size, -1)


def _free_disk(folder: Path) -> float | None:
    """MiB; None where nobody knows."""
    try:
        return shutil.disk_usage(folder).free / 2**20
    except OSError:
        return None
