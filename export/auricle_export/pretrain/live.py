"""Training on windows as they come live, judged on streams: what makes a model that can listen all day."""

from __future__ import annotations

import copy
import hashlib
import math
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
from auricle_export.pretrain.mined import Mined
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.normalised import fold_into, normalised
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.state import Facts, Note, State, damaged, load_state, save_state, state_file
from auricle_export.pretrain.streams import Recognise, Streams, hits_at
from auricle_export.pretrain.teachers import Taught, Teachers, identity_of, unsteadiness
from auricle_export.pretrain.trained import Epoch, Trained, TrainingInterrupted
from auricle_export.pretrain.training import Report, Stopped, pytorch_threads
from auricle_export.pretrain.vector_pool import VectorPool
from auricle_export.pretrain.warm_start import CALIBRATED, WarmStart, begin_with
from auricle_export.pretrain.windows import Composer

DECAY, CLIP = 0.02, 5.0
"""AdamW's weight decay of matrices, and the largest gradient norm."""
SMOOTHING = 0.05
"""Of the labels; not of those of a frozen network's vectors: its best false accepts and hits would score the same."""
WARMUP = 300
"""Steps in which the learning rate rises to its height."""
AVERAGE = 0.999
"""Share of the mean of the weights that stays in each step."""


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
        self.device = settings.torch_device
        torch.manual_seed(settings.seed)
        self.module = module_for(model, pack, modules)
        self.twin = normalised(self.module)
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
            self.teachers = Teachers(teachers, labels, settings.taught, self.device, modules)
        if start is not None:
            x, _ = self.composer(CALIBRATED, np.random.default_rng([settings.seed, 14]))
            begin_with(start, model, self.module, self.twin, labels, torch.from_numpy(x), modules)
        self.mean = copy.deepcopy(self.twin).to(self.device)
        self.twin.to(self.device)
        self.tensors = tensors_of(self.module, self.table)
        self.trained = [p for p in self.twin.parameters() if p.requires_grad]
        matrices = [p for p in self.trained if p.dim() > 1]
        vectors = [p for p in self.trained if p.dim() <= 1]
        head = {id(p) for name, p in self.twin.named_parameters() if name.startswith("head.") and start is not None}
        groups = [
            {
                "params": [p for p in parameters if (id(p) in head) == is_head],
                "weight_decay": decay,
                "share": 1.0 if start is None or is_head else start.body,
            }
            for parameters, decay in ((matrices, DECAY), (vectors, 0.0))
            for is_head in (False, True)
        ]
        self.optimizer = torch.optim.AdamW([group for group in groups if group["params"]], settings.rate)
        self.mined: Mined | None = None
        self.best = self._flat(self.mean)
        self.note = Note(facts=self._facts(corpus, start, teachers))

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
            self.twin.load_state_dict(state.group("model"))
            self.mean.load_state_dict(state.group("mean"))
            slots = {place: state.group(f"optimizer/{place}") for place in range(len(self.trained))}
            self.optimizer.load_state_dict(
                {"state": slots, "param_groups": self.optimizer.state_dict()["param_groups"]}
            )
            self.best = state.tensors["best/weights"].numpy()
            mined = {name: tensor.numpy() for name, tensor in state.group("mined").items()}
            if mined:
                self._use(Mined.from_arrays(mined))
        except (RuntimeError, KeyError, ValueError) as error:
            raise damaged(path) from error
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
                self.best = self._flat(self.mean)
                changes |= {"best_hits": hits, "best_epoch": number}
        seconds = self.note.seconds + time.monotonic() - began
        self.note = msgspec.structs.replace(self.note, epoch=number, seconds=seconds, **changes)
        save_state(folder / state_file(self.model), self._state())
        best = self.note.best_epoch
        return Epoch(self.model, number, self.settings.epochs, loss, hits, 1 - hits, best, seconds)

    def _train(self, number: int, stopped: Stopped) -> float:
        s, total = self.settings, 0.0
        torch.manual_seed(s.seed * 1_000_003 + number)  # what is dropped is the same after an interruption
        self.twin.train()
        with ThreadPoolExecutor(1, "compose") as worker:
            first = (number - 1) * s.steps
            coming = worker.submit(self._draw, first)
            for step in range(first, first + s.steps):
                x, y = coming.result()
                if stopped():
                    raise TrainingInterrupted("The training was interrupted.")
                if step + 1 < first + s.steps:
                    coming = worker.submit(self._draw, step + 1)
                total += self._step(step, x, y)
        if not math.isfinite(total) or not all(torch.isfinite(p).all() for p in self.trained):
            raise AuricleError(f"The loss of {self.model} is not finite in epoch {number}: lower --rate.")
        return total / s.steps

    def _step(self, step: int, x: Tensor, y: Tensor) -> float:
        s = self.settings
        share = step / (s.epochs * s.steps)
        rate = s.rate * min(1.0, (step + 1) / WARMUP) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        x, y = x.to(self.device), y.to(self.device)
        logits, pairs = self.twin(x), s.windows.shift[1] > 0
        if self.teachers is None:
            smoothing = 0.0 if self._has_network else SMOOTHING
            loss = nn.functional.cross_entropy(logits, y, label_smoothing=smoothing)
        else:
            loss = nn.functional.cross_entropy(logits, self.teachers.targets(x, y, SMOOTHING, pairs=pairs))
        if s.steady:
            loss = loss + s.steady * unsteadiness(logits)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.trained, CLIP)
        self.optimizer.step()
        self._average(step)
        return float(loss.detach())

    def _average(self, step: int) -> None:
        new = 1 - min(AVERAGE, (step + 1) / (step + 10))
        with torch.no_grad():
            for mean, now in zip(self.mean.parameters(), self.twin.parameters(), strict=True):
                mean.lerp_(now, new)
            for kept, newest in zip(self.mean.buffers(), self.twin.buffers(), strict=True):
                if kept.is_floating_point():  # statistics have to be those of the mean, not of the newest weights
                    kept.lerp_(newest, new)
                else:
                    kept.copy_(newest)

    def _draw(self, step: int) -> tuple[Tensor, Tensor]:
        draw = self.pool or self.composer
        x, y = draw(self.settings.batch, np.random.default_rng([self.settings.seed, 6, step]))
        return torch.from_numpy(x), torch.from_numpy(y)

    def recognise(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Posteriors (N, L) by the mean of the weights."""
        self.mean.eval()
        with torch.no_grad():
            logits = self.mean(torch.from_numpy(features).to(self.device))
            posteriors: NDArray[np.float32] = torch.softmax(logits, 1).cpu().numpy()
        return posteriors

    def _flat(self, twin: nn.Module) -> Flat:
        """A twin's weights (P,) in the pack's order, normalisation folded in."""
        fold_into(twin, self.module)
        parts = [self.tensors[spec.name].detach().cpu().numpy().ravel() for spec in self.table.specs]
        flat: Flat = np.concatenate(parts).astype(np.float32)
        return flat

    def result(self) -> Trained:
        """The best checkpoint as float16, and its share of hits on the validation streams."""
        with np.errstate(over="ignore"):
            weights: Flat = self.best.astype(np.float16).astype(np.float32)
        if not np.isfinite(weights).all():
            raise AuricleError(f"A weight of {self.model} does not fit a float16: lower --rate.")
        write_flat(self.tensors, self.table, weights)
        note = self.note
        return Trained(weights, 0.0, 0, note.epoch, note.best_epoch, note.best_hits, note.seconds)

    def _state(self) -> State:
        tensors = {f"model/{name}": tensor for name, tensor in self.twin.state_dict().items()}
        tensors |= {f"mean/{name}": tensor for name, tensor in self.mean.state_dict().items()}
        tensors["best/weights"] = torch.from_numpy(self.best)
        for place, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{place}/{slot}": tensor for slot, tensor in slots.items()}
        if self.mined is not None:
            tensors |= {f"mined/{name}": torch.from_numpy(array) for name, array in self.mined.arrays().items()}
        return State(self.note, tensors)
