"""A shipped pack as it is before it says how to listen, or with weights for its larger model too."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from auricle.packs.manifest import FORMAT, FileEntry, Start
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_file


def bare_pack(name: str) -> Pack:
    """Without thresholds, negatives, and what its training says of hearing."""
    pack = load_pack(name)
    manifest = pack.manifest
    start = {
        model: msgspec.structs.replace(each, hearing=UNSET, attribution=UNSET, speech=UNSET)
        for model, each in manifest.start.items()
    }
    gone = () if manifest.negatives is UNSET else (manifest.negatives.file,)
    kept = tuple(entry for entry in manifest.files if entry.path not in gone)
    return Pack(
        msgspec.structs.replace(manifest, format=FORMAT, listening=UNSET, negatives=UNSET, start=start, files=kept),
        pack.files,
    )


def with_own_model(pack: Pack, model: str) -> Pack:
    """With seeded weights of this model to start from."""
    file = f"weights/{model}.safetensors"
    files = {**pack.files, file: start_file(pack.table(model), pack.table(model).initial(1))}
    start = Start(file=file, data="noise", clips=1, speakers=1, accuracy=0.5, judged_clips=1, seed=1)
    manifest = msgspec.structs.replace(
        pack.manifest,
        start={**pack.manifest.start, model: start},
        files=tuple(FileEntry.of(path, data) for path, data in sorted(files.items())),
    )
    return Pack(manifest, files)
