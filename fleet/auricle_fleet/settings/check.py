"""What a fleet run may be told: words and limits, and which settings go together."""

from __future__ import annotations

from difflib import get_close_matches

from msgspec import structs

from auricle.errors import SettingsError, nearest
from auricle.process.plugins import entry_points_of
from auricle.wire.update_codec import UPDATE_CODECS
from auricle_edge.runtimes.choice import GROUP
from auricle_edge.training.own_model import WHEEL_NAMES
from auricle_fleet.settings.fleet_settings import BROKERS, LOCALS, FleetSettings
from auricle_fleet.settings.groups import check_groups, require_room
from auricle_fleet.settings.start_from import check_start_from
from auricle_learning.aggregation.rules.rule import check_needs, given_with
from auricle_learning.aggregation.server_optimizer import KINDS
from auricle_learning.methods import get_rule, rule_names
from auricle_learning.presets import Preset, get_preset

LONGEST_SECONDS = 1e9
"""Seconds that an invitation can say."""
LARGEST_SEED = 1 << 40
"""What a plan can say."""

JUDGE = ("auto", "on", "off")
TRAINS = ("auto", "step", "native")
MOST_MINUTES = 60.0
MOST_PROCESSES = 1000
MOST_CARRIED = 0.9

COUNTS = (
    ("devices", "devices", (1, 1_000_000)),
    ("rounds", "rounds", (1, 1_000_000)),
    ("takes", "takes", (1, 10_000)),
    ("central_epochs", "epochs", (1, 1_000_000)),
    ("pretrain", "epochs", (0, 1_000_000)),
    ("min_clips", "clips", (1, 1_000_000)),
    ("unseen", "speakers", (0, 1_000_000)),
)
"""Settings that count something, and the least and the most that they can be."""

VALIDATION = "validation"
SHARE = "share:"
MOST_SHARE = 0.5
"""Of the devices' clips that a coordinator can take."""

MODES = ("sync", "async")
MOST_SELECTED = 10.0
LEARNING = ("mutual", "supervised")


def slip(broker: str) -> str | None:
    """The broker's program that was meant by a word that is nearly its name; None where it is an address."""
    return None if "://" in broker else next(iter(get_close_matches(broker, BROKERS, 1, 0.7)), None)


def check_labels(told: FleetSettings, *, asks: bool) -> None:
    """SettingsError for devices without labels in rounds that teach by labels alone.

    Parameters
    ----------
    asks
        Whether the method's plan asks for FixMatch.
    """
    groups = {group.name: group.labelled_share for group in told.groups}
    if told.labelled_share is not None and not 0 <= told.labelled_share <= 1:
        raise SettingsError(f"--labelled-share is {told.labelled_share:g}: it has to be from 0 to 1.")
    if asks and told.learning == "mutual":
        raise SettingsError(
            "Clips without labels are learned from by the plug-in alone: leave out --learning mutual, or say "
            "--method-option unlabelled=0."
        )
    if not asks and (told.labelled_share == 0 or 0 in groups.values()):
        raise SettingsError("Devices without any label learn with --method fedrpo alone: raise the labelled share.")


def labelled_share(labelled: str | None) -> float | None:
    """The share of the devices' clips that the coordinator takes, with their labels; None where it takes none.

    Raises
    ------
    SettingsError
        What follows `share:` is not a number above 0 and at most `MOST_SHARE`.
    """
    if labelled is None or not labelled.startswith(SHARE):
        return None
    try:
        share = float(labelled.removeprefix(SHARE))
    except ValueError:
        share = 0.0
    if not 0 < share <= MOST_SHARE:
        raise SettingsError(
            f'--labelled "{labelled}" is not a valid share: say {SHARE} and a number above 0 and at most '
            f"{MOST_SHARE:g}, such as {SHARE}0.03."
        )
    return share


def labelled_folder(labelled: str | None) -> str | None:
    """The folder of labelled clips; None where none is named."""
    return None if labelled == VALIDATION or labelled_share(labelled) is not None else labelled


def learns_from_labelled(settings: FleetSettings) -> bool:
    """Whether the method of a run learns from labelled clips at the coordinator."""
    rule = settings.with_method(get_preset(settings.preset)).method.get_rule()
    return bool(set(rule.needs) & given_with(labelled=True) - given_with(labelled=False))


def check_labelled(settings: FleetSettings) -> None:
    """SettingsError for labelled clips of which nothing is learnt, or that there cannot be."""
    labelled = settings.labelled
    if labelled is not None and not settings.pretrain and not learns_from_labelled(settings):
        method = settings.with_method(get_preset(settings.preset)).method
        raise SettingsError(
            f"The method {method.name} learns from no labelled clips: leave out --labelled, or train the first model "
            "on them with --pretrain."
        )
    labelled_share(labelled)
    if labelled == VALIDATION and not settings.validation:
        raise SettingsError(
            "--labelled validation takes the clips of the validation speakers: add --validation, or name a folder of "
            "this name as ./validation."
        )


def check_learning(learning: str | None, preset: Preset) -> None:
    """SettingsError for a way of learning that is not the one that the preset's method decides."""
    rule = preset.method.get_rule()
    if learning is None or (decided := rule.plan_for(structs.replace(preset.plan, mode=learning)).mode) == learning:
        return
    if "mutual" not in rule.settings:
        raise SettingsError(f"With the method {rule.name} devices learn by {decided} training: leave out --learning.")
    raise SettingsError(
        f'How devices learn is an option of the method "{rule.name}": leave out --learning, or say --method-option '
        f"mutual={'true' if learning == 'mutual' else 'false'}."
    )


def check_compute(told: FleetSettings) -> None:
    """SettingsError for a time of a step that is not allowed, and for groups that are slow in what takes no time."""
    if not 0 <= told.step_seconds <= LONGEST_SECONDS:
        raise SettingsError(f"--step-seconds is {told.step_seconds:g}: it takes seconds, 0 to {LONGEST_SECONDS:.0f}.")
    slow = next((group.name for group in told.groups if group.compute != 1), None)
    if slow is not None and not told.step_seconds:
        raise SettingsError(
            f'The group "{slow}" has a compute, and no step takes time: say with --step-seconds how long one takes '
            "where compute is 1."
        )


def check_server(told: FleetSettings) -> None:
    """SettingsError for an optimizer that does not exist, or after a method that is itself the server's step."""
    kind = told.server_optimizer
    if kind is not None and kind not in KINDS:
        raise SettingsError(f'There is no server optimizer "{kind}"; {nearest(kind, KINDS)}')
    method = told.method or get_preset(told.preset).method.name
    if kind not in (None, "none") and get_rule(method).step:
        raise SettingsError(f"The method {method} is itself the server's step: leave --server-optimizer out.")


def check_counts(told: FleetSettings) -> None:
    """SettingsError for a number of something that cannot be."""
    for name, what, (least, most) in COUNTS:
        value = getattr(told, name)
        if value is not None and not (isinstance(value, int) and least <= value <= most):
            raise SettingsError(
                f"--{name.replace('_', '-')} {value} is not a valid number of {what}: say {least} to {most:,}."
            )


def check_run(told: FleetSettings) -> None:
    """SettingsError for a value that is not allowed, or settings that do not go together."""
    check_counts(told)
    named = (("method", told.method, rule_names()), ("learning", told.learning, LEARNING))
    for what, word, known in (*named, ("codec", told.codec, UPDATE_CODECS)):
        if word is not None and word not in known:
            raise SettingsError(f'There is no {what} "{word}"; {nearest(word, known)}')
    check_server(told)
    if told.server_rate is not None and not 0 < told.server_rate < float("inf"):
        raise SettingsError(f"--server-rate is {told.server_rate:g}: it has to be a number above 0.")
    chosen = told.with_method(get_preset(told.preset)).fitted(trained=False, server_rate=told.server_rate)
    given = given_with(labelled=True)  # what is left open is chosen when the run begins
    rule = chosen.method.get_rule()
    check_needs(rule, given=given, mode=told.mode, detection=told.detect, codec=told.codec)
    check_labelled(told)
    check_labels(told, asks=bool(chosen.plan.fixmatch))
    if told.mode not in MODES:
        hint = " How devices learn is --learning." if told.mode in LEARNING else ""
        raise SettingsError(f'There is no mode "{told.mode}"; {nearest(told.mode, MODES)}{hint}')
    if not 1 <= told.over_selection <= MOST_SELECTED:
        raise SettingsError(f"--over-selection has to be from 1 to {MOST_SELECTED:g}.")
    if told.detect and told.mode == "async":
        raise SettingsError("--detect compares the losses of one round's devices: it needs --mode sync.")
    told.detection.require()
    check_learning(told.learning, chosen)
    mode, detects, codec, noise = told.mode, told.detect, told.codec, told.privacy.clip is not None
    told.privacy.require(chosen.method, mode=mode, detection=detects, codec=codec)
    told.secure_sum.require(chosen.method, mode=mode, detection=detects, noise=noise, codec=codec)
    check_groups(told.groups)
    if not 0 <= told.round_every <= LONGEST_SECONDS:
        raise SettingsError(f"--round-every is {told.round_every:g}: it takes seconds, 0 to {LONGEST_SECONDS:.0f}.")
    check_compute(told)
    if told.devices is not None:
        require_room(told.groups, told.devices)
    for name in (*told.architectures(), *(group.local for group in told.groups if group.local)):
        if told.pack is None and name not in (*LOCALS, *WHEEL_NAMES):
            raise SettingsError(f'There is no local model "{name}"; {nearest(name, (*LOCALS, "mixed"))}')
    check_start_from(told.start)
    trains = (*TRAINS, *entry_points_of(GROUP))
    if told.runtime not in trains:
        raise SettingsError(f"--runtime is {' or '.join(trains)}: {nearest(told.runtime, trains)}")
    if told.judge not in JUDGE:
        raise SettingsError(f"--judge is {', '.join(JUDGE[:-1])} or {JUDGE[-1]}: {nearest(told.judge, JUDGE)}")
    if not 0 < told.judge_minutes <= MOST_MINUTES or not 0 <= told.judge_share <= 1:
        raise SettingsError(
            f"--judge-minutes has to be above 0 and at most {MOST_MINUTES:.0f}, --judge-share from 0 to 1."
        )
    if told.carried is not None and not 0 <= told.carried <= MOST_CARRIED:
        raise SettingsError(f"--carried is a share of what a round trains on, 0 to {MOST_CARRIED:g}.")
    if not 0 <= told.processes <= MOST_PROCESSES:
        raise SettingsError(f"--processes is {told.processes}: it has to be from 1 to {MOST_PROCESSES:,}.")
    if told.ray is not None and told.processes:
        raise SettingsError("--processes are of this machine, and --ray says where devices train: leave one out.")
    for option, share in (("participation", told.participation), ("quorum", told.quorum)):
        if not 0 < share <= 1:
            raise SettingsError(f"--{option} is {share:g}: it is a share, above 0 and at most 1.")
    if not 0 < told.deadline <= LONGEST_SECONDS:
        raise SettingsError(
            f"--deadline is {told.deadline:g}: it takes seconds, above 0, at most {LONGEST_SECONDS:.0f}."
        )
    if not 0 <= told.seed <= LARGEST_SEED:
        raise SettingsError(f"--seed is {told.seed}: it has to be from 0 to {LARGEST_SEED}.")
    if told.broker is not None and told.broker not in BROKERS and (near := slip(told.broker)):
        raise SettingsError(f'There is no broker "{told.broker}"; did you mean "{near}"?')
    if not 0 <= told.port <= 65535:
        raise SettingsError(f"--port is {told.port}: it has to be from 0 (a free one) to 65535.")
