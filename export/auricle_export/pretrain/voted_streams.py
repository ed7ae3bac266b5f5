"""Streams as a pack hears them that has a vote: the same scenes through two front-ends, and both models' posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.checks.onnx_network import frontend_of
from auricle.errors import DataError
from auricle.hearing.vote import add_vote
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.speech.features import Energies, LogMel, stream_energies, window_begin
from auricle.wire.tensors import Flat
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.streams import Recognise, Streams

SceneVotes = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Hops (N,) of a scene, and the vote's posteriors (N, L) there."""


@dataclass(frozen=True, eq=False)
class StreamVoter:
    """A pack's vote, ready to hear streams beside its plug-in."""

    frontend: LogMel
    """Its own."""
    recognise: Recognise
    """Posteriors (N, L) of its windows."""
    share: float
    """Of the vote in the mean of log posteriors."""

    def beside(self, streams: Streams, energies: Sequence[Energies] = ()) -> VotedStreams:
        """The same streams, heard by the plug-in and the vote together.

        Parameters
        ----------
        streams
            The plug-in's, with the same labels as the vote.
        energies
            What the vote's front-end makes of the first scenes, where these have no samples; of the others it is
            computed.

        Raises
        ------
        DataError
            The labels are others.
        """
        task = self.frontend.task
        if streams.labels != task.labels:
            raise DataError("A vote hears the same labels in the same order as the plug-in: train both with these.")
        rest = (stream_energies(task, scene.samples) for scene in streams.scenes[len(energies) :])
        own = replace(streams, energies=(*energies, *rest), frontend=self.frontend, heard={})
        return _beside(streams, own, self)


def voter_of(pack: Pack, weights: Flat, share: float) -> StreamVoter:
    """A vote by its own pack, whose plug-in has these weights (P,): `Pack.voter`, or a head that is to become one."""
    return StreamVoter(frontend_of(pack), recogniser_of(pack.manifest.plugin, pack, weights), share)


def as_heard_by(pack: Pack, streams: Streams) -> Streams:
    """The plug-in's streams as the whole pack hears them: with its vote, where it has one."""
    voter, vote = pack.voter, pack.manifest.vote
    if voter is None or vote is UNSET:
        return streams
    return voter_of(voter, start_weights(voter, voter.manifest.plugin), vote.share).beside(streams)


@dataclass(frozen=True, eq=False, kw_only=True)
class VotedStreams(Streams):
    """Streams of a plug-in and its vote: wherever streams are heard, both hear them."""

    vote: Streams
    """The same scenes with energies by the vote's front-end."""
    voter: StreamVoter

    @property
    def alone(self) -> Streams:
        """The same streams as the plug-in hears them by itself."""
        return Streams(self.scenes, self.energies, self.labels, self.frontend, self.rule, self.progress, self.heard)

    def with_share(self, share: float) -> VotedStreams:
        """The same streams with another share of the vote, from 0 to 1."""
        return replace(self, voter=replace(self.voter, share=share))

    def posteriors(self, recognise: Recognise) -> list[NDArray[np.float32]]:
        """Posteriors (hops, L) of every scene that count, of which the plug-in says `recognise`.

        At each hop the vote's window is the newest that ends with a unit of its own, as on a device. While no whole one
        of either has come there is none: 0.
        """
        first, votes = self.both(recognise)
        return self.joined(first, votes, self.voter.share)

    def both(self, recognise: Recognise) -> tuple[list[NDArray[np.float32]], list[SceneVotes]]:
        """Posteriors (hops, L) of every scene by the plug-in, and what the vote says where there are any."""
        by_plugin = replace(self.alone, progress=lambda done, every: self.progress(done, 2 * every))
        first = by_plugin.posteriors(recognise)
        votes: list[SceneVotes] = []
        for place, rows in enumerate(first):
            hops = np.flatnonzero(rows.any(axis=1))
            begins = window_begin(self.vote.frontend.task, self._ends(hops))
            hops, begins = hops[begins >= 0], begins[begins >= 0]
            votes.append((hops, self.vote.posteriors_at(place, begins, self.voter.recognise)))
            self.progress(len(first) + len(votes), 2 * len(first))
        return first, votes

    @staticmethod
    def joined(
        first: Sequence[NDArray[np.float32]], votes: Sequence[SceneVotes], share: float
    ) -> list[NDArray[np.float32]]:
        """Posteriors (hops, L) of every scene that count, of a plug-in's and the votes on them."""
        counted = [np.zeros_like(rows) for rows in first]
        for rows, own, (hops, vote) in zip(counted, first, votes, strict=True):
            rows[hops] = add_vote(own[hops], vote, share)
        return counted

    def _ends(self, hops: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many frames of the vote's front-end have come at the ends of hops (N,)."""
        hop = round(self.rule.hop * self.frontend.task.sample_rate)
        frames: NDArray[np.int64] = (hops + 1) * hop // self.vote.frontend.task.frontend.hop
        return frames

    @property
    def longest(self) -> int:
        """Frames of the longer of both windows."""
        return max(super().longest, self.vote.longest)

    def over(self, sounds: Sequence[NDArray[np.float32]], silence: tuple[int, int]) -> VotedStreams:
        """The same ears over other sounds, as of `Streams.over`."""
        return _beside(self.alone.over(sounds, silence), self.vote.over(sounds, silence), self.voter)


def _beside(own: Streams, vote: Streams, voter: StreamVoter) -> VotedStreams:
    parts = (own.scenes, own.energies, own.labels, own.frontend, own.rule, own.progress, own.heard)
    return VotedStreams(*parts, vote=vote, voter=voter)
