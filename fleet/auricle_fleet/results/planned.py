"""A forecast on a terminal: a table of all engines beside what this machine has, and where each figure is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from auricle.process.ending import fit_to_terminal
from auricle.process.table import Column, print_grid
from auricle.process.times import how_many
from auricle_fleet.engine import Constants
from auricle_fleet.forecast.forecast import EngineForecast, Forecast, forecast, is_tight
from auricle_fleet.settings.units import size
from auricle_fleet.training_runtime import TrainingRuntime

__all__ = ["Forecast", "forecast", "show"]

EXACT, MEASURED, BENCH, ESTIMATE = "counted", "measured", "bench", "estimate"


def show(plan: Forecast, write: Callable[[str], None]) -> None:
    """Print a forecast: a sentence, the table, and the sources of its figures."""
    write(
        fit_to_terminal(
            f"{plan.devices:,} devices with {plan.training_clips:,} training clips, {plan.invited:,} invited to each "
            f"of {plan.rounds:,} rounds; a model of {plan.weights:,} weights; {plan.unseen_clips:,} clips to judge by."
        )
    )
    columns = [Column("", 0), *(Column(name, 0) for name in plan.engines), Column("there is", 0), Column("from", 1)]
    print_grid(columns, list(_rows(plan)))
    for line in _sources(plan):
        write(fit_to_terminal(line))
    for name, each in plan.engines.items():
        if each.refused is not None and name != plan.engine:
            write(fit_to_terminal(f"--engine {name}: {each.refused}"))
        elif each.refused is None and (
            is_tight(each.needs.memory, plan.machine.memory) or is_tight(each.needs.disk, plan.machine.disk)
        ):
            write(
                fit_to_terminal(
                    f"--engine {name} may just fit: memory or disk is nearer to its end than this forecast is sure."
                )
            )


def _rows(plan: Forecast) -> Iterator[list[str]]:
    machine = plan.machine

    def row(what: str, value: Callable[[EngineForecast], str], there: str, source: str) -> list[str]:
        return [what, *map(value, plan.engines.values()), there, source]

    cores = how_many(machine.cores, "core")
    memory = "-" if machine.memory is None else size(machine.memory)
    yield row("until the first round", lambda e: long(e.times.prepare), cores, f"{MEASURED}, {ESTIMATE}")
    yield row("a round", lambda e: long(e.times.round), "", f"{MEASURED}, {BENCH}")
    yield row("the run", lambda e: long(e.times.run), "", f"{MEASURED}, {ESTIMATE}")
    yield row("memory", lambda e: size(e.needs.memory), memory, f"{EXACT}, {BENCH}")
    yield row("sent a round", lambda e: size(e.needs.up_round), "", f"{EXACT}, {BENCH}")
    yield row("sent in all", lambda e: size(e.needs.up), "", f"{EXACT}, {BENCH}")
    yield row("received a round", lambda e: size(e.needs.down_round), "", f"{EXACT}, {BENCH}")
    yield row("received in all", lambda e: size(e.needs.down), "", f"{EXACT}, {BENCH}")
    yield row("open files", lambda e: f"{e.needs.files:,}", f"{machine.files:,}", BENCH)
    yield row("of the broker", lambda e: f"{e.needs.broker_files:,}" if e.needs.broker_files else "-", "", BENCH)
    yield row("disk", lambda e: size(e.needs.disk), size(machine.disk), f"{EXACT}, {BENCH}")


def _sources(plan: Forecast) -> Iterator[str]:
    """What each figure comes from, with the constants by name."""
    yield (
        "Times are those of this machine with nothing else to do; what comes before the first round is an estimate. "
        "Counted: of the settings, the pack and the clips."
    )
    yield TrainingRuntime(plan.runtime, plan.runtime_reason).sentence
    for model, speed in plan.speeds.items():
        yield (
            f"Measured here on {speed.when} (--measure does it again), of one core: with {model} as own model a step "
            f"of {speed.batch} clips takes {1e3 * speed.step:.1f} ms; the plug-in recognises a clip in "
            f"{1e3 * speed.plugin:.2f} ms and the own model in {1e3 * speed.own:.2f} ms; its features take "
            f"{1e3 * speed.features:.2f} ms."
        )
    for name, each in plan.engines.items():
        yield f"Of {plan.source}, {name}: {_describe(each.constants)}."


def _describe(has: Constants) -> str:
    """An engine's constants in a line."""
    parts = [
        f"{size(has.base_memory_bytes)} of memory, {size(has.device_memory_bytes)} a device",
        *([f"{size(has.process_memory_bytes)} a process"] if has.process_memory_bytes else []),
        f"{has.update_memory_ratio:g} times an update for each answer",
        f"{1e3 * has.client_seconds:.1f} ms a client's round beside training",
        f"{has.base_files} open files and {has.device_files:g} a device",
    ]
    if has.sent_round_bytes:
        sent, received = has.sent_round_bytes, has.received_round_bytes
        parts.append(f"{sent:,.0f} bytes sent and {received:,.0f} received a round beside weights")
    return ", ".join([*parts, f"{size(has.device_disk_bytes)} of disk a device beside {has.states_kept} states"])


def long(seconds: float) -> str:
    """Seconds as people say them: `12 s`, `3:05 min`, `2:10 h`."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes}:{rest:02d} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02d} h"
