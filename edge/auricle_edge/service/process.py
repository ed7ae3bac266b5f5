"""The process of a device that listens: `python -m auricle_edge.service.process`, started by `auricle edge run`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from auricle_edge.listening.capture.frames import FileFinding

UNTRAINED = (
    "WARNING: the model of {pack} was never trained and recognises no word. Train it with auricle export pretrain, or "
    "let a fleet train it first."
)


def serve(encoded: bytes, as_json: bool, verbose: bool = False) -> bytes | None:
    """Listen until interrupted, or until the device has to start again with what it has just installed.

    Parameters
    ----------
    encoded
        The settings, an `EdgeSettings` as JSON.
    as_json
        Say as JSON what the device starts with, and what it hears also at a terminal.
    verbose
        Say of models and runtimes also at a terminal.

    Returns
    -------
    bytes or None
        Settings as `encoded` to start again with; None: it has ended.

    Raises
    ------
    AuricleError
        It cannot start, or it ended with an error.
    """
    import asyncio
    from functools import partial

    import msgspec

    from auricle.process.ending import at_terminal
    from auricle.process.until_signal import until_signal
    from auricle_edge.ota.following import count_start, note_failure
    from auricle_edge.ota.pack_shelf import running_pack
    from auricle_edge.service.listening_device import ListeningDevice
    from auricle_edge.service.status import awaited_words, other_words
    from auricle_edge.settings import EdgeSettings
    from auricle_edge.training.own_model import own_model
    from auricle_learning.native.first_use import RuntimeDiesError

    settings = msgspec.json.decode(encoded, type=EdgeSettings)
    count_start(settings)
    pack = running_pack(settings)
    pack.hold_only((own_model(pack, settings.local, settings.start), pack.manifest.plugin))
    try:
        device = ListeningDevice(settings, pack, readable=not as_json and at_terminal())
    except RuntimeDiesError as error:
        note_failure(settings, str(error))
        raise
    parts, model = device.parts, device.parts.hearing.now
    heard, others = awaited_words(pack.labels, parts.detect), other_words(settings.pack)
    facts = {
        "device": settings.name,
        "fleet": settings.fleet,
        "pack": pack.identity,
        "pack_name": pack.manifest.name,
        "words": parts.words,
        "wake": heard.wake,
        "window": heard.window,
        "commands": heard.commands,
        "other_words": others,
        "source": settings.capture.source,
        "runtime": parts.choice.runtime.name,
        "reason": parts.choice.reason,
        "model": model.candidate.name,
        "trained": model.candidate.trained,
        "model_reason": model.reason,
        "own_model": parts.own_model,
        "own_model_reason": parts.own_model_reason,
    }
    words = f"{settings.name} listens to {settings.capture.source} for {heard.sentence}"
    warning = "" if model.candidate.trained else UNTRAINED.format(pack=pack.manifest.name)
    reasons = (parts.choice.reason, model.reason, parts.own_model_reason)
    greet = partial(say, facts, (warning, words, others), reasons, as_json=as_json, verbose=verbose)
    asyncio.run(until_signal(device.run(greet)))
    if parts.capture.findings and not device.starts_anew:
        say_findings(settings.name, parts.capture.findings.values(), as_json=as_json)
    if not device.starts_anew:
        return None
    moved = device.moved_to
    return encoded if moved is None else msgspec.json.encode(msgspec.structs.replace(settings, broker=moved))


def say(
    facts: Mapping[str, object],
    sentences: Sequence[str | None],
    reasons: Sequence[str | None],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """What it starts with: the facts as JSON on standard output, or sentences for a person on standard error.

    The reasons, of models and runtimes, are left out at a terminal unless `verbose`; so is what is None or empty.
    """
    if as_json:
        import json

        print(json.dumps(facts), flush=True)
        return
    from auricle.process.ending import at_terminal, fit_to_terminal

    lines = sentences if at_terminal() and not verbose else (*sentences, *reasons)
    print(fit_to_terminal("\n".join(filter(None, lines)), stderr=True), file=sys.stderr, flush=True)


def say_findings(device: str, files: Iterable[FileFinding], *, as_json: bool) -> None:
    """What is wrong with files of a recorded source: a last line of JSON, or a table for a person."""
    from auricle.speech.sound_faults import Finding, count_findings, findings_table, sentences_of

    findings = [Finding(each.reason, each.sentence, each.is_used) for each in files]
    counts = count_findings(findings)
    if not as_json:
        print(findings_table(counts), file=sys.stderr, flush=True)
        return
    import msgspec

    rows, skipped = msgspec.to_builtins(counts), len(sentences_of(findings))
    told = {"type": "findings", "device": device, "skipped_files": skipped, "findings": rows}
    print(msgspec.json.encode(told).decode(), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code.

    What makes the process small comes first: nothing that it puts off may have been imported before.
    """
    from auricle.process.interrupt import end_at_once

    end_at_once()
    from auricle_edge.board.late_modules import stand_in_for

    stand_in_for()
    from auricle_edge.board.memory import be_small

    be_small()
    from auricle.errors import INVALID_CODE, AuricleError
    from auricle.process import ending
    from auricle.process.ending import begin_log, fail
    from auricle_edge.fleet.fleet_word import say_of_fleet

    ending.ours = True
    as_json, verbose = "--json" in arguments, "--verbose" in arguments
    begin_log(as_json, verbose=verbose)
    say_of_fleet(as_json)
    try:
        encoded = ending.read_settings(arguments[0])
        if (again := serve(encoded, as_json, verbose)) is not None:
            ending.become_module("auricle_edge.service.process", again, *arguments[1:])
    except AuricleError as error:
        return fail(str(error), error.exit_code, as_json)
    except OSError as error:
        from auricle.process.wrong_line import (
            of_the_system,
        )  # a command line's library, which no device keeps in memory

        return fail(of_the_system(error), INVALID_CODE, as_json)
    except KeyboardInterrupt:
        return fail("Interrupted.", 130, as_json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
