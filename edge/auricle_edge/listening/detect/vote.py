"""The vote of a pack beside what listens: its own windows of the same sound, and its share in every posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.hearing.vote import add_vote
from auricle.packs.manifest import Task
from auricle.packs.pack import Pack
from auricle.packs.start import network_tensors, start_weights
from auricle.speech.features import LogMel, stream_energies, window_begin
from auricle_edge.listening.detect.hops import Hops, Ring
from auricle_edge.listening.detect.recognisers import Posteriors, Recognise
from auricle_edge.listening.detect.settings import VoteUse
from auricle_edge.listening.sound import RATE
from auricle_learning.runtimes import Runtime, frontend_of, recogniser

_AT_ONCE = 256
"""Windows that are recognised together."""


@dataclass(frozen=True, eq=False)
class Voter:
    """The vote of a pack, ready to hear: any number of detectors may share one."""

    frontend: LogMel
    """Its own."""
    recognise: Recognise
    """Posteriors (N, L) of what its front-end makes of windows."""
    share: float
    """Of the vote in the mean of log posteriors."""
    weights: int = 0
    """How many every window goes through, those of the front-end's network too."""
    model: str = ""
    """Its name in the pack."""

    def with_share(self, share: float) -> Voter:
        """The same vote with another share."""
        return replace(self, share=share)

    def join(self, first: Posteriors, clips: NDArray[np.float32] | NDArray[np.int16]) -> Posteriors:
        """Posteriors (N, L) that count of clips (N, S) of which the pack's own models said `first` (N, L).

        The vote hears the end of a clip that is longer than its window, and silence before one that is shorter.
        """
        size = self.frontend.task.clip_samples
        under = np.pad(clips[:, -size:], ((0, 0), (max(0, size - clips.shape[1]), 0)))
        return add_vote(first, self.recognise(self.frontend(under)), self.share)

    def windows(self, samples: NDArray[np.int16], ends: NDArray[np.int64]) -> tuple[Posteriors, NDArray[np.bool_]]:
        """What it says (N, L) at the ends (N,) of windows in a recording (S,), as `VoteStream` does one by one.

        Returns
        -------
        tuple
            Posteriors, 0 where no whole window of it has come yet, and where one has (N,).
        """
        task = self.frontend.task
        begins = window_begin(task, ends // task.frontend.hop)
        whole: NDArray[np.bool_] = begins >= 0
        said: Posteriors = np.zeros((len(ends), len(task.labels)), np.float32)
        places = np.flatnonzero(whole)
        energies = stream_energies(task, samples) if len(places) else np.zeros((0, task.frontend.mels), np.float32)
        for at in range(0, len(places), _AT_ONCE):
            some = places[at : at + _AT_ONCE]
            said[some] = self.recognise(self.frontend.windows(energies, begins[some]))
        return said, whole


def load_voter(pack: Pack, choose: Callable[[Pack], Runtime], use: VoteUse = "auto") -> Voter | None:
    """The vote of a pack; None where it has none, or where none is to be heard.

    Parameters
    ----------
    choose
        Gives the runtime of the vote, which is a pack of its own; asked only where it is to be heard.

    Raises
    ------
    SettingsError
        The pack has none and `use` is on.
    AuricleError
        It does not run here, or its weights or graphs are not sound.
    """
    voter, vote = pack.voter, pack.manifest.vote
    if voter is None and use == "on":
        raise SettingsError(
            f'[detect] vote is on, and the pack {pack.manifest.name} has none: say vote = "auto", or take a pack that '
            "has one."
        )
    if voter is None or vote is UNSET or use == "off":
        return None
    runtime, model = choose(voter), voter.manifest.plugin
    weights = start_weights(voter, model)
    network = sum(tensor.size for tensor in network_tensors(voter).values())
    return Voter(frontend_of(runtime), recogniser(runtime, model, weights), vote.share, weights.size + network, model)


class VoteStream:
    """A vote beside the hops of a detector, from the same ring of samples.

    Its window is the newest that ends with a unit of its own, not after the hop: the same that `Voter.windows` takes.
    Sound is looked at only when a window is judged, each frame of it once; what is longer ago than a window never.

    Parameters
    ----------
    voter
        What votes.
    seconds
        Of the detector's hop.

    Raises
    ------
    SettingsError
        The hop is longer than the vote's window.
    """

    def __init__(self, voter: Voter, seconds: float) -> None:
        self._voter, task = voter, voter.frontend.task
        self._task = task
        self._hops = Hops(voter.frontend, vote_hop(task, seconds))
        self._most = -(-(-(-task.frames // task.unit) * task.unit) // (self._hops.size // task.frontend.hop))
        self.reach = (self._most + 1) * self._hops.size + self._hops.span
        """Samples that a ring has to hold for it."""
        self._begun = self._next = 0
        self._said: Posteriors | None = None

    def begin(self, start: int) -> None:
        """Forget everything: the next sample is this one."""
        self._begun = self._next = start
        self._said = None

    def is_whole(self, end: int) -> bool:
        """Whether a whole window of it has come since the beginning, before the sample `end`."""
        return bool(window_begin(self._task, (end - self._begun) // self._task.frontend.hop) >= 0)

    def join(self, first: Posteriors, ring: Ring, end: int) -> Posteriors:
        """Posteriors (1, L) that count in the window that ends at `end`, of which the own models said `first`."""
        size = self._hops.size
        newest = self._begun + (end - self._begun) // size * size
        if self._said is None or newest > self._next:
            self._next = max(self._next, newest - self._most * size)
            while self._next < newest:
                self._next += size
                self._hops.take(ring.read(max(self._next - self._hops.span, self._begun), self._next))
            self._said = self._voter.recognise(self._hops.features())
        return add_vote(first, self._said, self._voter.share)


def vote_hop(task: Task, seconds: float) -> float:
    """Seconds of a vote's hop beside one of so many: the same where those are whole units of its task, else a unit."""
    unit = task.unit * task.frontend.hop
    units, rest = divmod(round(seconds * RATE), unit)
    return seconds if units and not rest else unit / RATE
