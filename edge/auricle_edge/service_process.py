"""The process of a device that listens: `python -m auricle_edge.service_process`, started by `auricle edge run`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

TUNING = {-8: 1, -3: 1 << 20, -1: 2 << 20}
"""glibc's M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: one heap, from which what is large and free returns."""
ONCE = {"OPENBLAS_NUM_THREADS": "1"}
"""What libraries read when they are loaded: numpy needs no threads here."""


def be_small() -> None:
    """See that threads share one heap, and that libraries start no threads of their own; before these are loaded."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc
        for name, number in TUNING.items():
            library.mallopt(name, number)
    for variable, value in ONCE.items():
        os.environ.setdefault(variable, value)


def serve(encoded: bytes, as_json: bool) -> bool:
    """Listen until interrupted, or until the device has to start anew with what it has just installed.

    Parameters
    ----------
    encoded
        The settings, an `EdgeSettings` as JSON.
    as_json
        Say as JSON what the device starts with.

    Returns
    -------
    bool
        Whether to start anew.

    Raises
    ------
    AuricleError
        It cannot start, or it ended with an error.
    """
    be_small()
    from auricle.until_signal import until_signal
    from auricle_edge.greeting import awaited, other_words
    from auricle_edge.listening_device import ListeningDevice
    from auricle_edge.own_model import own_model
    from auricle_edge.service.pack_shelf import running_pack
    from auricle_edge.settings import EdgeSettings
    from auricle_edge.updates.following import count_start

    settings = msgspec.json.decode(encoded, type=EdgeSettings)
    count_start(settings)
    pack = running_pack(settings)
    pack.hold_only((own_model(pack, settings.local, settings.start), pack.manifest.plugin))
    device = ListeningDevice(settings, pack)
    model = device.hearing.now
    heard, others = awaited(pack.labels, device.detect), other_words(settings.pack)
    facts = {
        "device": settings.name, "fleet": settings.fleet, "pack": pack.identity, "pack_name": pack.manifest.name,
        "words": device.words, "wake": heard.wake, "window": heard.window, "commands": heard.commands,
        "other_words": others, "source": settings.capture.source, "runtime": device.choice.runtime.name,
        "reason": device.choice.reason, "model": model.candidate.name, "model_reason": model.reason,
        "own_model": device.own_model, "own_model_reason": device.own_model_reason,
    }  # fmt: skip
    words = f"{settings.name} listens to {settings.capture.source} for {heard.sentence}"
    sentences = (words, others, device.choice.reason, model.reason, device.own_model_reason)
    greet = partial(say, facts, as_json, "\n".join(filter(None, sentences)))
    asyncio.run(until_signal(device.run(greet)))
    return device.starts_anew


def say(facts: Mapping[str, object], as_json: bool, sentences: str) -> None:
    """What it starts with: as JSON on standard output, or for a person on standard error."""
    print(json.dumps(facts) if as_json else sentences, file=sys.stdout if as_json else sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code."""
    from auricle import fresh_process
    from auricle.ending import begin_log, fail
    from auricle.errors import AuricleError

    fresh_process.ours = True
    as_json = "--json" in arguments
    begin_log(as_json, verbose="--verbose" in arguments)
    try:
        encoded = fresh_process.given(arguments[0])
        if serve(encoded, as_json):
            fresh_process.become("auricle_edge.service_process", encoded, *arguments[1:])
    except AuricleError as error:
        return fail(str(error), error.exit_code, as_json)
    except KeyboardInterrupt:
        return fail("Interrupted.", 130, as_json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
