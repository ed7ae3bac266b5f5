"""How fast this machine trains and recognises with the pack that a run has: measured once, then remembered."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from auricle import __version__
from auricle.errors import AuricleError
from auricle.files import read_kept, write_durably
from auricle.speech.download import cache_folder
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.plan import Plan
from auricle_edge.runtimes.choice import STEP, onnxruntime_version
from auricle_learning.methods.method import NO_CHANGES
from auricle_learning.methods.passes import graph_kind, graph_optimizer, plan_of_pass, terms_of
from auricle_learning.runtimes import Job, Runtime, frontend_of
from auricle_learning.runtimes.interface import EVALUATION_BATCH
from auricle_learning.training.carried import carried_to_train
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.step_count import epochs_of, first_changes, first_lent
from auricle_learning.training.train import Trainer
from auricle_learning.training.training_job import scalars_of, vectors_of

MEASURED_EPOCHS = 6
MEASURED_BATCHES = 2
Positive = Annotated[float, Meta(gt=0, lt=1e6)]
FOLDER = "speed"


class Speed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one client takes of one core, in seconds of its time."""

    step: Positive
    """A training step: a batch is drawn, augmented and trained on."""
    batch: Annotated[int, Meta(ge=1, le=100_000)]
    """Own clips in a batch; the pack's negatives have the other places."""
    plugin: Positive
    """The plug-in recognises a clip, its features counted."""
    own: Positive
    """So does the device's own model."""
    features: Positive
    """Mel energies of a clip are computed."""
    when: str
    """The day on which this was measured."""


def speed_of(
    runtime: Runtime,
    model: str,
    plan: Plan,
    learn: LearnSettings,
    *,
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Speed:
    """This machine's speed: remembered, or measured now, which takes a few seconds.

    Parameters
    ----------
    runtime, model, plan, learn
        What trains with the pack, a device's own model, and how it learns.
    again
        Measure, whatever is remembered.
    say
        Told that it is measured.
    """
    file = cache_folder() / FOLDER / f"{_key(runtime, model, plan, learn)}.json"
    if not again:
        with contextlib.suppress(OSError, *UNDECODABLE):
            return msgspec.json.decode(read_kept(file), type=Speed)
    say(f"measures how fast this machine trains {model}")
    found = measured(runtime, model, plan, learn)
    with contextlib.suppress(OSError, AuricleError):  # it is measured again the next time
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, msgspec.json.encode(found))
    return found


def _key(runtime: Runtime, model: str, plan: Plan, learn: LearnSettings) -> str:
    """What a speed is of: pack, model, way of training, runtime, versions and machine."""
    way = (plan.mode, plan.order, plan.optimizer, plan.augment, plan.mu, plan.method)
    machine = (platform.node(), platform.machine(), platform.processor(), os.cpu_count())
    by = (runtime.name, onnxruntime_version() if runtime.name == STEP else "", __version__)
    told = (runtime.pack.identity, model, *way, bool(plan.bavd), learn.carried, *by, *machine)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def measured(runtime: Runtime, model: str, plan: Plan, learn: LearnSettings) -> Speed:
    """Train and recognise on noise; CPU seconds of one thread, so that other programs count little.

    A step is the difference between rounds of one epoch and of several: what a round takes besides is in neither.
    """
    pack, rng = runtime.pack, np.random.default_rng(0)
    task, labels, frontend = pack.manifest.task, len(pack.labels), frontend_of(runtime)
    sound = (1000 * rng.standard_normal((EVALUATION_BATCH, task.clip_samples))).astype(np.int16)
    features = _seconds(lambda: frontend.energies(sound)) / len(sound)
    energies = frontend.energies(sound)

    def device(clips: int) -> Trainer:
        held = Clips(energies[:0], np.zeros(0, np.int64))
        drawn = Clips(np.resize(energies, (clips, *energies.shape[1:])), rng.integers(0, labels, clips))
        return Trainer(runtime, model, DeviceData(drawn, held, None), 1, settings=learn)

    name, plugin, own = pack.manifest.plugin, pack.plugin_table.initial(0), pack.table(model).initial(1)
    one = msgspec.structs.replace(plan, epochs=1, rate=1e-6, local_rate=1e-6)
    size = _own_places(runtime, model, one, learn)
    trainer = device(MEASURED_BATCHES * size)
    state = trainer.first_state()
    many = msgspec.structs.replace(one, epochs=MEASURED_EPOCHS)
    lent = LentData(vectors=first_lent(pack, plan))
    trainer.run(one, 1, plugin, state, lent=lent)  # sessions are made, memory is taken
    once, often = (
        _seconds(lambda p=p: trainer.run(p, 1, plugin, state, lent=lent))  # type: ignore[misc]
        for p in (one, many)
    )
    more = epochs_of(pack, many) - epochs_of(pack, one)
    least, epochs = (once, more) if more else (0.0, epochs_of(pack, many))  # all are options of the method
    step = max(often - least, 1e-6) / (MEASURED_BATCHES * epochs)
    clips = Clips(energies, np.zeros(len(energies), np.int64))
    recognised = [
        _seconds(lambda m=m, w=w: trainer.logits(m, w, clips)) / len(clips)  # type: ignore[misc]
        for m, w in ((name, plugin), (model, own))
    ]
    return Speed(
        step=step,
        batch=size,
        plugin=recognised[0],
        own=recognised[1],
        features=features,
        when=time.strftime("%Y-%m-%d"),
    )


def _own_places(runtime: Runtime, model: str, plan: Plan, learn: LearnSettings) -> int:
    """How many of a batch's places are for a device's own clips, where it has no negatives of its own."""
    pack = runtime.pack
    name, changes = pack.manifest.plugin, first_changes(pack, plan)
    own = changes.trains == "local"
    if own:  # the graph of its supervised training, whatever else the method's has
        plan, changes = plan_of_pass(plan, changes), NO_CHANGES
    mutual = plan.mode == "mutual"
    models = {"local": model, "plugin": name} if mutual else {"model": model if own else name}
    weights = {role: pack.table(each).initial(0) for role, each in models.items()}
    received = weights["plugin" if mutual else "model"]
    job = Job(
        kind=graph_kind(plan),
        models=models,
        optimizer=graph_optimizer(plan),
        terms=terms_of(plan, changes),
        weights=weights,
        scalars=scalars_of(plan, changes),
        vectors=vectors_of(plan, received, changes),
    )
    size = runtime.begin(job).batch
    carried = carried_to_train(pack, learn.carried, 0)
    return size if carried is None else size - carried.places(size)


def _seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this thread for a piece of work: the least of three after one that does not count."""
    times = []
    for _ in range(4):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return max(min(times[1:]), 1e-9)
