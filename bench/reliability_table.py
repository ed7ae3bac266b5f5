"""The table of the comparison, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.reliability_memory import WARM
from bench.reliability_task import CLIENTS

Facts = Mapping[str, Any]
RULES = {"mean": "the mean of weights", "robust": "the side's own rule against it"}
ATTACKS = {"nan": "no numbers", "huge": "100,000 added to each weight", "large": "1 added, 100 steps"}


def yes(value: object) -> str:
    """A word for a fact."""
    return "yes" if value else "no"


def _client(found: Facts) -> list[str]:
    closed = f"{found['seconds']:.1f} s, with {found['counted']} of {CLIENTS}" if found["counted"] else "no"
    return [
        closed,
        f"{yes(found['ends'])}: `{found['state']}` after {found['end']:.0f} s, {found['rounds']} of 3 rounds",
        yes(found["mean"]),
        yes(found["back"]),
    ]


def _server(found: Facts) -> list[str]:
    if found["goes_on"]:
        how = f"yes (`{found['state']}`, {found['rounds']} of 3 rounds); next model after {found['seconds']:.1f} s"
        return [how, "nothing", yes(found["kept"]), f"{found['lost']} of {CLIENTS - 2}"]
    how = f"no: `{found['state']}`, {found['waited']:.0f} s after the kill"
    again = f"submit it again; its first model came {found['again']:.0f} s later"
    return [how, again, yes(found["kept"]), f"{found['lost']} of {CLIENTS - 2}"]


def _attack(found: Facts) -> str:
    if not found["made"]:
        return f"no model (`{found['state']}`)"
    if not found["finite"]:
        return "**no numbers any more**"
    return f"**off by {found['off']:.3g}**" if found["harmed"] else "sound"


def _memory(found: Facts) -> list[str]:
    warm, last = found["warm"], found["last"]
    return [
        f"{found['rounds']} in {found['seconds'] / 60:.1f} min",
        f"{warm['rss']:.0f} ({warm['pss']:.0f}), {last['rss']:.0f} ({last['pss']:.0f})",
        f"{warm['main']:.0f}, {last['main']:.0f}",
        f"{found['slope']:+.1f}, {found['slope_half']:+.1f}",
        f"{warm['files']}, {last['files']}; {warm['threads']}, {last['threads']}",
    ]


PARTS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], list[str]]]] = {
    "client": (
        (
            "client killed in round 2 of 3: that round closes after",
            "the run ends without help",
            "each model is the mean of the updates that counted",
            "started again, it counts in the next run",
        ),
        _client,
    ),
    "server": (
        (
            "all of the server killed in round 2 of 3: the run goes on without help",
            "a person has to",
            "the model goes on from the one before the kill",
            "acknowledged updates that are in no model",
        ),
        _server,
    ),
    "memory": (
        (
            "memory of the server, two clients: rounds that were made",
            f"MB (RSS, in brackets PSS) after round {WARM}, at the end",
            "of it, the main process of the server (RSS)",
            f"kB (RSS) a round after round {WARM}, in the second half",
            f"open files after round {WARM}, at the end; threads",
        ),
        _memory,
    ),
}


def report(result: Facts) -> str:
    """One table, and what a person was told of the client that attacks."""
    found: Mapping[str, Facts] = result["sides"]
    lines = [_line(["", *(facts["title"] for facts in found.values())]), _line(["---"] * (len(found) + 1))]
    for part in ("client", "server"):
        lines += _rows(part, found)
    lines += _attacks(found)
    lines += _rows("memory", found)
    load = f"{min(result['load']):.1f} to {max(result['load']):.1f}"
    lines += ["", f"{CLIENTS} clients, {result['cores']} cores, at a load of {load}", ""]
    lines += ["What was told of the attack, on the server's side:", ""]
    for facts in found.values():
        for part, rule in zip(RULES, facts["rules"], strict=True):
            for each in facts[part] if isinstance(facts.get(part), list) else ():
                lines.append(f"- {facts['title']}, {rule}, {ATTACKS[each['attack']]}: {each['said']}")
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(part: str, found: Mapping[str, Facts]) -> list[str]:
    titles, told = PARTS[part]
    if not any(part in facts for facts in found.values()):
        return []
    columns = []
    for facts in found.values():
        each = facts.get(part)
        if each is None or "failed" in each:
            columns.append([_missing(each)] + [""] * (len(titles) - 1))
        else:
            columns.append(told(each))
    return [_line([title, *(column[i] for column in columns)]) for i, title in enumerate(titles)]


def _attacks(found: Mapping[str, Facts]) -> list[str]:
    """A row for each attack under the mean, and one under what a side has against it."""
    lines = []
    for place, (part, words) in enumerate(RULES.items()):
        for attack, sent in ATTACKS.items() if any(part in facts for facts in found.values()) else ():
            cells = []
            for facts in found.values():
                each, rule = facts.get(part), facts["rules"][place]
                here = [one for one in each if one["attack"] == attack] if isinstance(each, list) else []
                if here:
                    cells.append(f"{_attack(here[0])}{f' ({rule})' if place else ''}")
                else:
                    cells.append(_missing(each) if rule else "has none")
            lines.append(_line([f"one client sends {sent}, {words}: the model is", *cells]))
    return lines


def _missing(found: object) -> str:
    """Of a part that was not measured, or did not come about."""
    return f"not measured: {found['failed']}" if isinstance(found, dict) else "not measured"
