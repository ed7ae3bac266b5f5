"""What a training of clips gave, put into a pack."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.manifest import Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_file
from auricle_export.packs.start_weights import with_starts
from auricle_export.pretrain.speech import PretrainSpeech
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.trained import Trained


def start_of(
    trained: Trained, model: str, speech: PretrainSpeech, seed: int, attribution: tuple[str, ...] = ()
) -> Start:
    """What a manifest says of a trained model."""
    return Start(
        file=f"weights/{state_file(model)}",
        data=speech.what,
        clips=len(speech.train),
        speakers=speech.train.speakers,
        accuracy=round(trained.accuracy, 4),
        judged_clips=trained.judged_clips,
        seed=seed,
        attribution=attribution or UNSET,
        speech=speech.digest,
    )


def with_trained(
    pack: Pack, trained: Mapping[str, Trained], speech: PretrainSpeech, seed: int, attribution: tuple[str, ...] = ()
) -> Pack:
    """The pack with these models' weights as float16 safetensors; others that it had to start from stay.

    A `.tflite` of one of these models holds the weights from before and is left out, and so is a signature: make both
    again.

    Raises
    ------
    PackError
        The pack is for other words than the speech, or two models would share a file.
    """
    if pack.labels != speech.labels:
        raise PackError(f"The pack {pack.manifest.name} is for other words than those that were trained.")
    pack = _without_tflite(pack, trained)
    starts, files = dict(pack.manifest.start), dict(pack.files)
    for model, result in trained.items():
        starts[model] = start_of(result, model, speech, seed, attribution)
        files[starts[model].file] = start_file(pack.table(model), result.weights)
    if len({start.file for start in starts.values()}) != len(starts):
        raise PackError("Two models of this pack have names that make the same file name: rename one.")
    return with_starts(pack, starts, files)


def _without_tflite(pack: Pack, models: Collection[str]) -> Pack:
    kept = tuple(entry for entry in pack.manifest.tflite if entry.model not in models)
    gone = {entry.file for entry in pack.manifest.tflite} - {entry.file for entry in kept}
    entries = tuple(entry for entry in pack.manifest.files if entry.path not in gone)
    return Pack(msgspec.structs.replace(pack.manifest, tflite=kept, files=entries), pack.files)
