"""Which model listens, the device's own, the fleet's plug-in or both, chosen after every round, at which thresholds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from auricle.wire.tensors import Flat, digest, encode
from auricle_edge.listening.detect import DetectSettings, DetectTable, Recognise, detect_settings
from auricle_edge.listening.detect.recognisers import (
    Candidate,
    ModelChoice,
    both,
    cascade,
    choose_model,
    packs_candidate,
)
from auricle_edge.listening.detect.score_level import ScoreLevel, describe_shift, level, score_level
from auricle_edge.training.judge.streams import Streams
from auricle_edge.training.local_store import LocalStore
from auricle_learning.runtimes import Runtime, frontend_of, recogniser
from auricle_learning.training.carried import judged_part
from auricle_learning.training.speech_data import Clips
from auricle_learning.training.train import LocalState


class ThresholdFollower:
    """The settings for whatever model listens, as strict as the pack's are for the pack's own.

    Only the half of the negatives that no round trains on is played. Nothing moves where the pack carries none or has
    no trained weights, and where the settings say `follow = false`.

    Parameters
    ----------
    runtime
        Runs the models.
    said
        The table `[detect]`: the thresholds in it stay.
    """

    def __init__(self, runtime: Runtime, said: DetectTable) -> None:
        pack = runtime.pack
        self._runtime, self._said = runtime, said
        self._usual = detect_settings(said, pack)
        has_packs = pack.manifest.negatives is not UNSET and pack.manifest.plugin in pack.manifest.start
        self._follows = said.follow and has_packs
        self._packs: ScoreLevel | None = None

    def settings(self, recognise: Recognise) -> DetectSettings:
        """Settings for a listener that is not the pack's own as it came."""
        if not self._follows:
            return self._usual
        pack = self._runtime.pack
        heard = judged_part(pack.stretches, pack.manifest.task.frames)
        streams = Streams(frontend_of(self._runtime), pack.labels, self._usual, heard)
        if self._packs is None:
            self._packs = self._level(streams, packs_candidate(self._runtime, self._usual.proposal).recognise)
        now = self._level(streams, recognise)
        if self._packs is None or now is None:
            return self._usual
        return level(self._usual, self._said, pack.labels, self._packs, now)

    def _level(self, streams: Streams, recognise: Recognise) -> ScoreLevel | None:
        return score_level(list(streams.posteriors(recognise)), self._runtime.pack.labels, self._usual)


WANTED = "The plug-in, and the device's own model as its second stage: second_stage is on."
PACKS = "The plug-in, and the device's own model as its second stage: the pack's thresholds were chosen with both."
UNTRAINED = " second_stage is on, and waits until both models are trained."
UNPROVEN = " The device's own model began as noise: it listens once it is better on the held-out clips."
TOO_FEW = "Too few held-out keyword clips to compare models: the device's own and the fleet's together, both taught."


class HearingModel:
    """Keeps the fleet's newest plug-in beside the device's own model, and chooses between them.

    Parameters
    ----------
    folder
        The device's state folder.
    runtime
        Runs the models.
    architecture
        Of the device's own model.
    first, plugin
        Trained weights to begin with, (Q,) and (P,); None where there are none and only noise is left.
    said
        The table `[detect]`.
    seed
        Of the noise that the device's own model begins with where `first` is None.
    """

    def __init__(
        self,
        folder: Path,
        runtime: Runtime,
        architecture: str,
        first: Flat | None,
        plugin: Flat | None,
        said: DetectTable | None = None,
        seed: int = 0,
    ) -> None:
        pack, said = runtime.pack, said or DetectTable()
        self._detect = detect_settings(said, pack)
        self._follower = ThresholdFollower(runtime, said)
        self._runtime, self._architecture, self._frontend = runtime, architecture, frontend_of(runtime)
        self._kept = LocalStore(folder / "plugin", pack.identity, pack.plugin_table)
        local = LocalStore(folder, pack.identity, pack.table(architecture)).read()
        saved = self._kept.read()
        self._plugin = plugin if saved is None else saved.weights
        self._as_it_came = saved is None
        """Whether no round has changed what listens."""
        self._came_trained = first is not None
        self._began = digest(encode(pack.table(architecture).initial(seed) if first is None else first))
        self._taught = False
        """Whether a round has changed the device's own model."""
        self._personal: Flat | None = first
        if local is not None:
            self._take(local.weights)
            self._as_it_came = self._as_it_came and not self._taught
        self.now: ModelChoice
        """What listens, and why."""
        self.detect: DetectSettings = self._detect
        """What it listens with: the pack's thresholds follow the model that listens (`follow` in `[detect]`)."""

    def choose(self, held_out: Clips) -> ModelChoice:
        """Let the model listen that does best on the clips that are never trained on.

        With too few of these to compare by it is the cascade where the pack was made for that, else both together once
        a round has taught the device's own model: docs/detection.md has what that does to hits and false accepts. A
        model that began as noise is in neither: only the held-out clips can show that it has become any good.
        """
        chosen = self._chosen(held_out)
        self.detect = self._detect if self._as_it_came else self._follower.settings(chosen.candidate.recognise)
        self.now = replace(chosen, reason=chosen.reason + describe_shift(self._detect, self.detect))
        return self.now

    def _chosen(self, held_out: Clips) -> ModelChoice:
        pack, wanted = self._runtime.pack, self._detect.second_stage
        personal = self._candidate("personal", self._architecture, self._personal)
        plugin = self._candidate("plugin", pack.manifest.plugin, self._plugin)
        together = both(personal, plugin)
        staged = cascade(plugin, personal, pack.labels, self._detect.proposal)
        if wanted == "on" and staged.trained and self._came_trained:
            return ModelChoice(staged, WANTED, {})
        candidates = (plugin, personal, together, *((staged,) if wanted != "off" else ()))
        features = self._frontend.finish(held_out.energies)
        choice = choose_model(candidates, features, held_out.targets, pack.labels)
        if not choice.merits and self._came_trained:
            if wanted == "auto" and staged.trained and self._pack_says_so:
                return ModelChoice(staged, PACKS, {})
            if self._taught and together.trained:
                return ModelChoice(together, TOO_FEW, {})
        return replace(choice, reason=choice.reason + self._waits(staged, choice))

    def _waits(self, staged: Candidate, choice: ModelChoice) -> str:
        """What else to say of an own model that began as noise, or that nobody has trained yet."""
        if not staged.trained:
            return UNTRAINED if self._detect.second_stage == "on" else ""
        began_as_noise = not self._came_trained and choice.candidate.name == "plugin"
        return UNPROVEN if began_as_noise else ""

    @property
    def _pack_says_so(self) -> bool:
        """Whether the pack's thresholds were chosen with the device's own model as second stage."""
        listening = self._runtime.pack.listening
        return listening is not None and listening.second_stage == self._architecture

    def learnt(self, plugin: Flat, personal: Flat, held_out: Clips) -> ModelChoice:
        """Take in what a round brought: the fleet's plug-in (P,), kept for the next start, and the own model (Q,)."""
        self._plugin, self._as_it_came = plugin, False
        self._take(personal)
        self._kept.save(LocalState(plugin))
        return self.choose(held_out)

    def _take(self, personal: Flat) -> None:
        """The own model's weights (Q,) from now on; the noise that it began with is no model yet."""
        self._taught = self._taught or digest(encode(personal)) != self._began
        if self._came_trained or self._taught:
            self._personal = personal

    def _candidate(self, name: str, model: str, weights: Flat | None) -> Candidate:
        table = self._runtime.pack.table(model)
        used = table.initial(0) if weights is None else weights
        return Candidate(name, recogniser(self._runtime, model, used), table.size, weights is not None)
