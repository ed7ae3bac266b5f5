"""Central training of a pack's models in PyTorch, to give federated runs something to start from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from auricle.checks.onnx_network import frontend_of
from auricle.errors import AuricleError
from auricle.packs.pack import Pack
from auricle.speech.augment import Augmenter
from auricle.wire.tensors import Flat
from auricle_export.pretrain.epoch_order import Places, balanced_order, balanced_size, mixed_order, mixed_size
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import Part, PretrainSpeech
from auricle_export.pretrain.state import Facts, Note, State, damage, load_state, save_state, state_file
from auricle_export.pretrain.trained import Epoch, Trained, TrainingInterrupted, logits_of, scores_of

DECAY, CLIP = 0.01, 5.0
"""AdamW's weight decay, and the largest gradient norm."""
WARMUP_EPOCHS = 2.0
"""Epochs in which the learning rate rises to its height."""
Report = Callable[[Epoch], None]
Stopped = Callable[[], bool]


def train_model(
    model: str,
    pack: Pack,
    speech: PretrainSpeech,
    settings: PretrainSettings,
    folder: Path,
    *,
    modules: Modules | None = None,
    report: Report = lambda _: None,
    stopped: Stopped = lambda: False,
) -> Trained:
    """Train one model of a pack from its seeded noise, or go on with a training that was interrupted.

    Every clip is augmented again in every epoch; each label is heard equally often. The weights of the epoch with the
    lowest loss on the validation speakers are kept and judged, as float16, on the test speakers.

    Parameters
    ----------
    model
        Name of the model in the pack.
    pack
        Its labels must be those of the speech.
    speech, settings
        What to train on and how.
    folder
        Where `MODEL.safetensors` keeps the state after every epoch.
    modules
        Makes models that are not built in, or are to be made in another way.
    report
        Called after every epoch.
    stopped
        Asked before every batch.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    PackError
        There is no such model, or its module has other tensors than the pack says.
    SettingsError, StorageError
        The folder holds the state of another training, or cannot be written.
    AuricleError
        A loss or a weight is not finite.
    """
    module = module_for(model, pack, modules or {})
    with pytorch_threads(settings.threads):
        training = _Training(model, module, pack, speech, settings)
        training.resume(folder)
        while not training.over:
            report(training.run_epoch(folder, stopped))
        return training.result()


@contextmanager
def pytorch_threads(count: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads until the block ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Training:
    """One model's training: the module, its optimizer and how far it came."""

    def __init__(
        self, model: str, module: nn.Module, pack: Pack, speech: PretrainSpeech, settings: PretrainSettings
    ) -> None:
        self.model, self.speech, self.settings = model, speech, settings
        self.table = pack.table(model)
        self.device = settings.torch_device
        self.module = module.to(self.device)
        self.tensors = tensors_of(self.module, self.table)
        write_flat(self.tensors, self.table, self.table.initial(settings.seed))
        self.optimizer = torch.optim.AdamW(list(self.tensors.values()), settings.rate, weight_decay=DECAY)
        self.frontend = frontend_of(pack)
        self.augmenter = Augmenter(self.frontend, speech.noise)
        self.energies, self.targets = speech.train.energies, speech.train.targets
        if speech.mixed is not None:
            self.energies = np.concatenate([self.energies, speech.mixed.energies])
            self.targets = np.concatenate([self.targets, speech.mixed.targets])
        self.best = self._parameters()
        self.note = Note(facts=self._facts(pack))

    def _facts(self, pack: Pack) -> Facts:
        s = self.settings
        shapes = ",".join(f"{spec.name}{spec.shape}{spec.bound}{spec.centre}" for spec in self.table.specs)
        return {
            "model": self.model,
            "tensors": shapes,
            "speech": self.speech.digest,
            "epochs": s.epochs,
            "patience": s.patience,
            "batch": s.batch,
            "rate": s.rate,
            "seed": s.seed,
            "front-end": msgspec.json.encode(pack.manifest.task.frontend).decode(),
            **({"smoothing": s.smoothing} if s.smoothing else {}),
            **self._mixing(),
        }

    def _mixing(self) -> Facts:
        mixed = self.speech.mixed
        return {} if mixed is None else {"synthetic": mixed.share, "balance": mixed.balance}

    def resume(self, folder: Path) -> None:
        """Take up the state in a folder, when there is one."""
        path = folder / state_file(self.model)
        state = load_state(path, self.note.facts)
        if state is None:
            return
        try:
            self.module.load_state_dict(state.group("model"))
            self.optimizer.load_state_dict(
                {
                    "state": {i: state.group(f"optimizer/{name}") for i, name in enumerate(self.best)},
                    "param_groups": self.optimizer.state_dict()["param_groups"],
                }
            )
            self.best = {name: state.group("best")[name].to(self.device) for name in self.best}
        except (RuntimeError, KeyError, ValueError) as error:
            raise damage(path) from error
        self.note = state.note

    @property
    def over(self) -> bool:
        """All epochs are done, or none has been better for as many as patience allows."""
        done = self.note.epoch
        return done >= self.settings.epochs or (done - self.note.best_epoch >= self.settings.patience)

    def run_epoch(self, folder: Path, stopped: Stopped) -> Epoch:
        """Train one epoch, judge it on the validation speakers and keep its state."""
        began, number = time.monotonic(), self.note.epoch + 1
        loss = self._train(number, stopped)
        accuracy, judged = self.judge(self.speech.validation)
        better = judged < self.note.best_loss  # a few hundred clips' loss is less noisy than their accuracy
        if better:
            self.best = self._parameters()
        best = {"best_epoch": number, "best_accuracy": accuracy, "best_loss": judged} if better else {}
        seconds = self.note.seconds + time.monotonic() - began
        self.note = msgspec.structs.replace(self.note, epoch=number, seconds=seconds, **best)
        save_state(folder / state_file(self.model), self._state())
        return Epoch(self.model, number, self.settings.epochs, loss, accuracy, judged, self.note.best_epoch, seconds)

    def _train(self, number: int, stopped: Stopped) -> float:
        self.module.train()
        for part in self.module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()  # a pack's graphs have it frozen
        total, seen = torch.zeros((), dtype=torch.float64, device=self.device), 0
        batches = -(-self._size // self.settings.batch)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.settings.seed * 1_000_003 + number)  # dropout
            for place, (x, y) in enumerate(self._batches(number)):
                if stopped():
                    raise TrainingInterrupted("The training was interrupted.")
                self._set_rate(number - 1 + place / batches)
                total, seen = total + self.step(x, y) * len(y), seen + len(y)
        if not torch.isfinite(total) or not all(torch.isfinite(p).all() for p in self.tensors.values()):
            raise AuricleError(f"The loss of {self.model} is not finite in epoch {number}: lower --rate.")
        return float(total) / seen

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step on log-mels (B, T, mels) with targets (B,); the mean loss (), float64, left on the device.

        Nothing waits for a number of it: a GPU has the next step while it computes this one.
        """
        logits, smoothing = self.module(x.to(self.device)), self.settings.smoothing
        loss = nn.functional.cross_entropy(logits, y.to(self.device), label_smoothing=smoothing)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.tensors.values(), CLIP)
        self.optimizer.step()
        return loss.detach().double()

    def _set_rate(self, epochs: float) -> None:
        """Rise in a straight line for `WARMUP_EPOCHS` epochs, and all along half a cosine down."""
        fall = 0.5 * (1 + math.cos(math.pi * epochs / self.settings.epochs))
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * fall * min(1.0, (epochs + 0.1) / WARMUP_EPOCHS)

    def _batches(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Augmented batches (B, T, mels) with their targets (B,); the next one is made while one is trained on."""
        rng = np.random.default_rng([self.settings.seed, 6, number])
        order, size = self._order(rng), self.settings.batch

        def draw(start: int) -> tuple[Tensor, Tensor]:
            chosen = order[start : start + size]
            x = self.augmenter(self.energies[chosen], rng)
            return torch.from_numpy(x), torch.from_numpy(self.targets[chosen])

        with ThreadPoolExecutor(1, "augment") as worker:
            coming = worker.submit(draw, 0)
            for start in range(size, len(order) + size, size):
                ready = coming.result()
                if start < len(order):
                    coming = worker.submit(draw, start)
                yield ready

    @property
    def _size(self) -> int:
        """Clips in an epoch."""
        train, mixed = self.speech.train, self.speech.mixed
        return balanced_size(train.targets) if mixed is None else mixed_size(train.targets)

    def _order(self, rng: np.random.Generator) -> Places:
        """An epoch's clips, places in `energies` and `targets`."""
        train, mixed = self.speech.train, self.speech.mixed
        if mixed is None:
            return balanced_order(train.targets, rng)
        return mixed_order(train.targets, mixed.targets, mixed.share, mixed.balance, rng)

    def judge(self, part: Part) -> tuple[float, float]:
        """Accuracy and mean cross-entropy on some speakers' clips, as they were recorded."""
        logits = logits_of(self.module, self.frontend, part, self.device)
        targets = torch.from_numpy(part.targets)
        loss = float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
        return float((logits.argmax(dim=1) == targets).sum()) / len(part), loss / len(part)

    def result(self) -> Trained:
        """The best epoch's weights as float16, and what these score on the test speakers."""
        flat = np.concatenate([self.best[spec.name].cpu().numpy().ravel() for spec in self.table.specs])
        with np.errstate(over="ignore"):
            weights: Flat = flat.astype(np.float16).astype(np.float32)
        if not np.isfinite(weights).all():
            raise AuricleError(f"A weight of {self.model} does not fit a float16: lower --rate.")
        write_flat(self.tensors, self.table, weights)
        scores = scores_of(self.module, self.frontend, self.speech.test, self.speech.labels, self.device)
        test, note = self.speech.test, self.note
        return Trained(
            weights=weights,
            accuracy=sum(score.right for score in scores.values()) / len(test),
            judged_clips=len(test),
            epochs=note.epoch,
            best_epoch=note.best_epoch,
            validation_accuracy=note.best_accuracy,
            seconds=note.seconds,
            scores=scores,
        )

    def _parameters(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.tensors.items()}

    def _state(self) -> State:
        tensors = {f"model/{name}": tensor for name, tensor in self.module.state_dict().items()}
        tensors.update({f"best/{name}": tensor for name, tensor in self.best.items()})
        for name, parameter in self.tensors.items():
            slots = self.optimizer.state[parameter]
            tensors.update({f"optimizer/{name}/{slot}": tensor for slot, tensor in slots.items()})
        return State(self.note, tensors)
