"""What is judged: a pack's models with their own weights, with others, several together, or in two stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from auricle.errors import DataError, SettingsError
from auricle.files import read_kept
from auricle.hearing.rule import Rule
from auricle.hearing.waking import Waking
from auricle.packs.pack import Pack
from auricle.packs.start import read_start, start_weights
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import Cascade, DetectSettings, Recognise, ensemble
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.listening.detect.vote import Voter, load_voter
from auricle_learning.runtimes import Runtime, recogniser


@dataclass(frozen=True, eq=False)
class ListenerUnderTest:
    """A name, and what recognises."""

    name: str
    recognise: Recognise
    weights: int
    """How many every window goes through."""
    second_weights: int = 0
    """How many those windows go through that the second stage judges, too."""
    vote: Voter | None = None
    """What has a share in the posteriors."""


SECOND = ",second:"
"""What stands between the two stages of a listener."""
VOTE = ",vote"
"""What follows the stages of a listener where the pack's vote has a share; `:SHARE` after it, where another one."""
FORMS = (
    "NAME=MODEL, NAME=MODEL:FILE.safetensors, NAME=MODEL+MODEL or NAME=MODEL,second:MODEL, each of them with ,vote or "
    ",vote:SHARE after it"
)


def listeners_of(
    given: Sequence[str],
    pack: Pack,
    choose: Callable[[], Runtime],
    choose_vote: Callable[[Pack], Runtime] | None = None,
) -> list[ListenerUnderTest]:
    """Listeners of `NAME=STAGE[,second:STAGE][,vote[:SHARE]]`, a stage `MODEL[:FILE.safetensors][+MODEL[:FILE]...]`.

    Several models of a stage judge with the mean of their posteriors; a second stage judges what the first proposes, as
    on a device (`Cascade`); the pack's vote has its share, or another one between 0 and 1. Where none is given, it is
    what a device listens with that nobody has taught: the pack's plug-in, the second stage that the pack names, and its
    vote.

    Parameters
    ----------
    choose
        Gives the runtime; asked once all weights are read.
    choose_vote
        Gives the one of the pack's vote; without, nobody hears the vote who was not told to.

    Raises
    ------
    SettingsError
        One is not written so, a name is there twice, or the pack has no vote.
    PackError
        The pack has no such model, no weights of it, or the file's are not its.
    """
    stages = [_stages(text) for text in given or [_usual(pack, vote=choose_vote is not None)]]
    names = [each.name for each in stages]
    if len(set(names)) != len(names):
        raise SettingsError(f"--weights names {max(names, key=names.count)} twice: give each its own name.")
    models = {model for each in stages for stage in (each.one, each.two) if stage for model in stage.split("+")}
    weights = {model: _weights(pack, model) for model in sorted(models)}
    votes = any(each.share is not None for each in stages)
    if votes and (pack.voter is None or choose_vote is None):
        raise SettingsError(f"The pack {pack.manifest.name} has no vote: leave ,vote out of --weights.")
    made = _Models(pack.labels, weights, choose())
    voter = load_voter(pack, choose_vote) if votes and choose_vote is not None else None
    return [_listener(each, made, voter) for each in stages]


class _Stages(NamedTuple):
    """What `--weights` says of a listener."""

    name: str
    one: str
    two: str
    """Empty where it has no second stage."""
    share: float | None
    """Of the vote; 0: the pack's. None: it has no vote."""


def _usual(pack: Pack, *, vote: bool) -> str:
    plugin, second = pack.manifest.plugin, UNSET if pack.listening is None else pack.listening.second_stage
    usual = f"{plugin}={plugin}" if second is UNSET else f"both stages={plugin}{SECOND}{second}"
    return f"{usual}{VOTE}" if vote and pack.voter is not None else usual


class _Models:
    """Models by how they are named, each made once."""

    def __init__(self, labels: Sequence[str], weights: Mapping[str, Flat], runtime: Runtime) -> None:
        self.labels = labels
        self._weights, self._runtime = weights, runtime
        self._made: dict[str, tuple[Recognise, int]] = {}

    def stage(self, names: str) -> tuple[Recognise, int]:
        """What `MODEL[:FILE][+MODEL[:FILE]...]` recognises with, and how many weights it has."""
        parts = [self._model(name) for name in names.split("+")]
        size = sum(weights for _, weights in parts)
        return (parts[0][0] if len(parts) == 1 else ensemble([recognise for recognise, _ in parts])), size

    def _model(self, name: str) -> tuple[Recognise, int]:
        if name not in self._made:
            weights = self._weights[name]
            self._made[name] = recogniser(self._runtime, name.partition(":")[0], weights), len(weights)
        return self._made[name]


def _stages(text: str) -> _Stages:
    """A listener's name, its stages and its vote."""
    name, equals, said = text.partition("=")
    stages, asked, share = said.partition(VOTE)
    one, comma, two = stages.partition(SECOND)
    wrong = not equals or not name or not one or bool(comma) != bool(two) or SECOND in two
    if wrong or (share and _share(share) is None):
        raise SettingsError(f'--weights "{text}" is not {FORMS}.')
    return _Stages(name, one, two, (_share(share) or 0.0) if asked else None)


def _share(text: str) -> float | None:
    """The number of `:SHARE`; None where it is not one between 0 and 1."""
    try:
        share = float(text.removeprefix(":")) if text.startswith(":") else 0.0
    except ValueError:
        return None
    return share if 0 < share < 1 else None


def _listener(asked: _Stages, models: _Models, voter: Voter | None) -> ListenerUnderTest:
    recognise, size = models.stage(asked.one)
    more, vote = 0, None
    if asked.two:
        second, more = models.stage(asked.two)
        keywords = np.array([is_keyword(label) for label in models.labels])
        recognise = Cascade(recognise, second, keywords, DetectSettings().proposal)
    if asked.share is not None and voter is not None:
        vote = voter.with_share(asked.share) if asked.share else voter
    return ListenerUnderTest(asked.name, recognise, size + (0 if vote is None else vote.weights), more, vote)


def _weights(pack: Pack, named: str) -> Flat:
    """The weights (P,) of `MODEL[:FILE]`."""
    model, _, file = named.partition(":")
    if not file:
        pack.table(model)
        return start_weights(pack, model)
    try:
        data = read_kept(Path(file))
    except OSError as error:
        raise DataError(f"The weights {file} cannot be read: {error.strerror}.") from error
    return read_start(data, pack.table(model), file)


def rule_of(settings: DetectSettings) -> Rule:
    """The rule of these settings, but for the thresholds."""
    return Rule(settings.hop, settings.smoothing, settings.patience, settings.refractory)


def thresholds_of(labels: Sequence[str], settings: DetectSettings) -> dict[str, float]:
    """The threshold of each keyword."""
    return {label: settings.thresholds.get(label, settings.threshold) for label in labels if is_keyword(label)}


def waking_of(labels: Sequence[str], settings: DetectSettings, guard: int = 0) -> Waking | None:
    """How a device sleeps and wakes with these settings; None without wake words.

    Parameters
    ----------
    guard
        Hops after each wake word in which no command counts, which a detector finds by the sound (`Waking`).
    """
    if not settings.wake:
        return None
    usual = thresholds_of(labels, settings)
    commands = {word: settings.commands.get(word, level) for word, level in usual.items() if word not in settings.wake}
    wake = {word: usual[word] for word in settings.wake}
    return Waking(settings.wake, wake, commands, settings.window, rule_of(settings), guard)
