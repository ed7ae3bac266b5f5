"""How a running service is, in sentences for a person."""

from __future__ import annotations

from collections.abc import Iterator

from auricle.process.times import about, how_many
from auricle_edge.fleet.agent_context import Standing
from auricle_edge.fleet.sent_status import SentStatus
from auricle_edge.service.answers import FleetStatus, ListeningStatus, TrainingStatus, quote_words

FLOOR_DBFS = -70.0
"""dBFS of silence, at which a meter is empty."""


def sentences(told: ListeningStatus | TrainingStatus) -> Iterator[str]:
    """The status for a person."""
    yield f"{told.device}: pack {told.pack_name} ({told.pack[:12]}), {told.running_seconds:.0f} s up."
    if isinstance(told, ListeningStatus):
        yield from _of_updates(told.updates)
    if isinstance(told, TrainingStatus):
        yield f"It learns from {told.training_clips} clips of {told.speech} and does not listen."
        yield from _of_fleet(told.fleet)
        return
    sound, heard = told.capture, told.listening
    if sound.muted:
        yield f"The microphone is muted ({sound.mute_reason})."
    elif sound.running:
        yield (
            f"Listening to {sound.device} at {sound.native_rate} Hz, {sound.level_dbfs or FLOOR_DBFS:.0f} dBFS, "
            f"with the {told.model} model."
        )
        yield from filter(None, (sound.problem, sound.note))
    else:
        yield sound.problem or "No sound: waiting for the microphone."
    yield from _states(told)
    if sound.restarts:
        counts = ", ".join(f"{how_many(count, 'time')} ({reason})" for reason, count in sound.restarts.items())
        yield f"The microphone was started again: {counts}."
    yield (
        f"{heard.detections} detections in {about(heard.hours * 3600)}, {heard.denied} denied; "
        f"real-time factor {heard.real_time_factor:.3f}."
    )
    if heard.latency_p50 is not None:
        yield f"Latency from the word's end: {heard.latency_p50:.2f} s (median), {heard.latency_p95:.2f} s (p95)."
    if told.fleet is not None:
        yield from _of_fleet(told.fleet)
    if told.sensitivity.step:
        yield f"Sensitivity {told.sensitivity.step:+d}, set by the coordinator: [remote] in the settings refuses it."
    if told.report.hearing:
        words = ", and of each word" if told.report.words else ""
        yield f"Coarse counts of what is heard{words} go to the coordinator: [report] in the settings."
    if told.gate is not None:
        yield f"Gate: {told.gate.gate}. {told.gate.reason}"


def _of_updates(updates: Standing) -> Iterator[str]:
    """Which bundle runs, and how far the newest rollout has come here; nothing where no bundle was installed."""
    if updates.bundle is not None:
        trial = "" if updates.confirmed else ", on trial"
        yield f"Version {updates.version} ({updates.bundle[:12]}) for {updates.board}, {updates.os}{trial}."
    if updates.rollout and updates.state is not None:
        why = f": {updates.reason.removesuffix('.')}." if updates.reason else "."
        yield f"Rollout {updates.rollout}: {updates.state}{why}"


def _of_fleet(fleet: FleetStatus) -> Iterator[str]:
    """Whether its coordinator is reached, and what became of the last round."""
    reached = "connected" if fleet.connected else f"not connected: {fleet.last_error or 'no answer yet'}"
    yield f"Fleet {fleet.name}: {reached}; {fleet.state}."
    if fleet.word and fleet.connected:
        yield f"{fleet.word[0].upper()}{fleet.word[1:].removesuffix('.')}."
    if fleet.other_pack:
        yield fleet.other_pack
    if fleet.sent is not None:
        yield from of_sent(fleet.sent)


def of_sent(sent: SentStatus) -> Iterator[str]:
    """What left the device in rounds, and what its owner insists on."""
    kinds = ((sent.masked, "masked sum"), (sent.noisy, "noisy update"), (sent.plain, "plain update"))
    counts = ", ".join(how_many(count, kind) for count, kind in kinds if count)
    if sent.last_kind is None:
        yield "Nothing left the device in rounds."
    else:
        last = f"last in round {sent.last_round}, a {sent.last_kind}"
        yield f"In rounds left the device: {counts}, {how_many(sent.bytes, 'byte')}; {last}."
    if sent.precision or sent.largest_epsilon is not None:
        spent = "more than 700" if sent.epsilon is None else f"{sent.epsilon:.4g}"
        most = "" if sent.largest_epsilon is None else f" of at most {sent.largest_epsilon:g}"
        bare = "; its plain updates are covered by no epsilon" if sent.plain else ""
        yield f"Epsilon {spent}{most} (delta {sent.delta:g}) towards who sees its updates{bare}."
    if sent.require is not None:
        yield f"It takes part only in rounds with a {sent.require.replace('-', ' ')}."


def _states(told: ListeningStatus) -> Iterator[str]:
    """What counts now, how often the second stage was needed, and which model votes."""
    heard = told.listening
    if told.state != "open":
        now = "Awake: commands count" if told.state == "awake" else f"Asleep until {quote_words(told.wake)}"
        yield (
            f"{now}; a wake word opens {told.window:g} s for a command. {heard.wakes} wake words, "
            f"{heard.timeouts} without a command after them."
        )
    if told.model == "cascade" or told.second_stage == "on":
        yield f"Second stage: judged {heard.second_share:.1%} of {heard.windows} windows. {told.model_reason}"
    if told.vote is not None:
        yield f"Vote: {told.vote.model} of the pack has a share of {told.vote.share:g} in every posterior."
