"""Training on windows as they come live, judged on streams: what makes a model that can listen all day."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import torch
from msgspec import UNSET
from numpy.typing import NDArray
from torch import Tensor, nn

from auricle.errors import AuricleError
from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_export.pretrain.corpus import Corpus
from auricle_export.pretrain.hard_negatives import mine, run_together
from auricle_export.pretrain.live_weights import LiveWeights
from auricle_export.pretrain.mined import Mined
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.state import Facts, Note, State, damage, load_state, save_state, state_file
from auricle_export.pretrain.streams import Recognise, Streams, hits_at
from auricle_export.pretrain.teachers import Taught, Teachers, identity_of, unsteadiness
from auricle_export.pretrain.trained import Epoch, Trained, TrainingInterrupted
from auricle_export.pretrain.training import Report, Stopped, pytorch_threads
from auricle_export.pretrain.vector_pool import VectorPool
from auricle_export.pretrain.warm_start import CALIBRATED_WINDOWS, WarmStart
from auricle_export.pretrain.windows import Composer

SMOOTHING = 0.05
"""Of the labels; not of those of a frozen network's vectors: its best false accepts and hits would score the same."""


def train_live(
    model: str,
    pack: Pack,
    corpus: Corpus,
    streams: Streams,
    settings: LiveSettings,
    folder: Path,
    *,
    modules: Modules | None = None,
    start: WarmStart | None = None,
    teachers: Sequence[Taught] = (),
    report: Report = lambda _: None,
    stopped: Stopped = lambda: False,
) -> Trained:
    """Train one model of a pack on windows as they come live, or go on with a training that was interrupted.

    The mean of the weights over the last thousand steps is what is judged and kept. Every `settings.judged` epochs it
    listens to the validation streams; the checkpoint with the most hits at five false accepts an hour stays.

    Parameters
    ----------
    model
        Name of the model in the pack, which has the labels `_unknown_` and `_silence_`.
    corpus, streams
        What to train on, and the validation streams.
    settings
        How.
    folder
        Where `MODEL.safetensors` keeps the state after every epoch.
    modules, report, stopped
        As in `train_model`.
    start
        Weights to begin with, in place of random ones.
    teachers
        Trained models from which it learns beside the labels.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    PackError, SettingsError, StorageError, AuricleError
        As in `train_model`.
    """
    with pytorch_threads(settings.threads):
        training = _Live(model, pack, corpus, streams, settings, modules or {}, start, teachers)
        training.resume(folder)
        while training.note.epoch < settings.epochs:
            report(training.run_epoch(folder, stopped))
        return training.result()


def recogniser_of(model: str, pack: Pack, weights: Flat, modules: Modules | None = None) -> Recognise:
    """Recognise with a model's weights (P,), on the CPU."""
    module = module_for(model, pack, modules or {})
    write_flat(tensors_of(module, pack.table(model)), pack.table(model), weights)
    module.eval()

    def recognise(features: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            posteriors: NDArray[np.float32] = torch.softmax(module(torch.from_numpy(features)), 1).numpy()
        return posteriors

    return recognise


class _Live:
    """One model's training."""

    def __init__(
        self,
        model: str,
        pack: Pack,
        corpus: Corpus,
        streams: Streams,
        settings: LiveSettings,
        modules: Modules,
        start: WarmStart | None,
        teachers: Sequence[Taught],
    ) -> None:
        self.model, self.corpus, self.streams, self.settings = model, corpus, streams, settings
        self.table = pack.table(model)
        labels = list(pack.labels)
        self.bank = corpus.bank
        if settings.windows.together:
            words = (self.bank.others, self.bank.alike)
            self.bank = replace(self.bank, together=run_together(words, np.random.default_rng([settings.seed, 13])))
        self.composer = Composer(
            self.bank, streams.frontend, labels.index(UNKNOWN), labels.index(SILENCE), settings.windows
        )
        network = pack.manifest.task.frontend.network
        self._has_network = network is not UNSET
        self._network = {} if network is UNSET else {"network": hashlib.sha256(pack.files[network.file]).hexdigest()}
        self.pool: VectorPool | None = None
        """Where the front-end has a network, what is drawn from; made when the first epoch begins."""
        self.teachers: Teachers | None = None
        if teachers:
            self.teachers = Teachers(teachers, labels, settings.taught, settings.torch_device, modules)
        self.weights = LiveWeights(model, pack, settings, modules, start, self._calibrating)
        self.mined: Mined | None = None
        self.best = self.weights.flat()
        self.note = Note(facts=self._facts(corpus, start, teachers))

    def _calibrating(self) -> Tensor:
        x, _ = self.composer(CALIBRATED_WINDOWS, np.random.default_rng([self.settings.seed, 14]))
        return torch.from_numpy(x)

    def _facts(self, corpus: Corpus, start: WarmStart | None, teachers: Sequence[Taught]) -> Facts:
        s = self.settings
        shapes = ",".join(f"{spec.name}{spec.shape}" for spec in self.table.specs)
        return {
            "model": self.model,
            "tensors": shapes,
            "speech": corpus.digest,
            "epochs": s.epochs,
            "steps": s.steps,
            "batch": s.batch,
            "rate": s.rate,
            "seed": s.seed,
            "windows": s.windows.text,
            **s.looks,
            **self._network,
            **({} if start is None else {"start": start.identity}),
            **({} if not teachers else {"teachers": identity_of(teachers), "taught": s.taught}),
        }

    def resume(self, folder: Path) -> None:
        """Take up the state in a folder, when there is one."""
        path = folder / state_file(self.model)
        state = load_state(path, self.note.facts)
        if state is None:
            return
        try:
            self.weights.resume(state)
            self.best = state.tensors["best/weights"].numpy()
            mined = {name: tensor.numpy() for name, tensor in state.group("mined").items()}
            if mined:
                self._use(Mined.from_arrays(mined))
        except (RuntimeError, KeyError, ValueError) as error:
            raise damage(path) from error
        self.note = state.note

    def _use(self, mined: Mined) -> None:
        self.mined = mined
        self.composer.weigh(mined)

    def run_epoch(self, folder: Path, stopped: Stopped) -> Epoch:
        """Train one epoch, judge it when its turn comes, and keep its state."""
        began, number = time.monotonic(), self.note.epoch + 1
        if self._has_network and self.pool is None:
            labels = self.streams.labels
            special = labels.index(UNKNOWN), labels.index(SILENCE)
            self.pool = VectorPool(self.composer, labels, *special, self.settings, stopped)
        if self.pool is not None and number > 1:
            self.pool.weigh(self.recognise)
        elif number > 1 and (number - 1) % self.settings.mined == 0:
            self._use(mine(self.bank, self.streams.frontend, self.streams.labels, self.recognise))
        loss = self._train(number, stopped)
        changes: dict[str, float | int] = {}
        hits = self.note.hits
        if number % self.settings.judged == 0 or number == self.settings.epochs:
            hits = hits_at(self.streams.counts(self.recognise))
            changes["hits"] = hits
            if hits >= self.note.best_hits:
                self.best = self.weights.flat()
                changes |= {"best_hits": hits, "best_epoch": number}
        seconds = self.note.seconds + time.monotonic() - began
        self.note = msgspec.structs.replace(self.note, epoch=number, seconds=seconds, **changes)
        save_state(folder / state_file(self.model), self._state())
        best = self.note.best_epoch
        return Epoch(self.model, number, self.settings.epochs, loss, hits, 1 - hits, best, seconds)

    def _train(self, number: int, stopped: Stopped) -> float:
        s, total = self.settings, torch.zeros((), dtype=torch.float64, device=self.weights.device)
        self.weights.begin_epoch(number)
        with ThreadPoolExecutor(1, "compose") as worker:
            first = (number - 1) * s.steps
            coming = worker.submit(self._draw, first)
            for step in range(first, first + s.steps):
                x, y = coming.result()
                if stopped():
                    raise TrainingInterrupted("The training was interrupted.")
                if step + 1 < first + s.steps:
                    coming = worker.submit(self._draw, step + 1)
                total += self.step(step, x, y)
        if not torch.isfinite(total) or not self.weights.finite:
            raise AuricleError(f"The loss of {self.model} is not finite in epoch {number}: lower --rate.")
        return float(total) / s.steps

    def step(self, step: int, x: Tensor, y: Tensor) -> Tensor:
        """One step on windows (B, T, mels) with targets (B,); the loss (), float64, left on the device."""
        s = self.settings
        x, y = x.to(self.weights.device), y.to(self.weights.device)
        logits, pairs = self.weights.twin(x), s.windows.shift[1] > 0
        if self.teachers is None:
            smoothing = 0.0 if self._has_network else SMOOTHING
            loss = nn.functional.cross_entropy(logits, y, label_smoothing=smoothing)
        else:
            loss = nn.functional.cross_entropy(logits, self.teachers.targets(x, y, SMOOTHING, pairs=pairs))
        if s.steady:
            loss = loss + s.steady * unsteadiness(logits)
        self.weights.move(step, loss)
        return loss.detach().double()

    def _draw(self, step: int) -> tuple[Tensor, Tensor]:
        draw = self.pool or self.composer
        x, y = draw(self.settings.batch, np.random.default_rng([self.settings.seed, 6, step]))
        return torch.from_numpy(x), torch.from_numpy(y)

    def recognise(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Posteriors (N, L) by the mean of the weights."""
        self.weights.mean.eval()
        with torch.no_grad():
            logits = self.weights.mean(torch.from_numpy(features).to(self.weights.device))
            posteriors: NDArray[np.float32] = torch.softmax(logits, 1).cpu().numpy()
        return posteriors

    def result(self) -> Trained:
        """The best checkpoint as float16, and its share of hits on the validation streams."""
        with np.errstate(over="ignore"):
            weights: Flat = self.best.astype(np.float16).astype(np.float32)
        if not np.isfinite(weights).all():
            raise AuricleError(f"A weight of {self.model} does not fit a float16: lower --rate.")
        write_flat(self.weights.tensors, self.table, weights)
        note = self.note
        return Trained(weights, 0.0, 0, note.epoch, note.best_epoch, note.best_hits, note.seconds)

    def _state(self) -> State:
        tensors = self.weights.state() | {"best/weights": torch.from_numpy(self.best)}
        if self.mined is not None:
            tensors |= {f"mined/{name}": torch.from_numpy(array) for name, array in self.mined.arrays().items()}
        return State(self.note, tensors)
