"""The methods in docs/methods.md, made of the code: `python tools/methods_page.py` writes them, `--check` compares.

Everything below `MARK` in the page is made of `METHODS`: of the docstrings of a method's module and functions, of its
rule's options (their struct) and needs, and of the vectors that it has travel.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from auricle.errors import SettingsError
from auricle.wire.plan import Plan
from auricle.wire.update_codec import TOP_K
from auricle_learning.aggregation.options import describe_values, list_fields
from auricle_learning.aggregation.rules.rule import WHAT, Rule, check_needs
from auricle_learning.methods import METHODS, get_method
from auricle_learning.methods.method import Method, Vector, nothing_after, of_the_plugin, unchanged_before
from auricle_learning.methods.vectors import travelling

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "methods.md"
MARK = "<!-- made by tools/methods_page.py from here on -->"
WIDTH = 116
FORMULA = re.compile(r"←| = |∝|≥|≤|Σ")
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z]|\S+ [←=])")
SOURCE = re.compile(r"(?:(?:Fed|Mu)\w+,? )?(?:eq\. \d+(?:-\d+)?(?:, \d+(?:-\d+)?)*|Algorithm \d+)")
DECISION = re.compile(r"\bA\d+\b")
FEATURES = "a classifier that gradients are taken of, with features to tune one's own on where the method has some"
ALL = """
## All methods

Of each: where it comes from, its options, what it computes, what it needs and what travels. P is the number of weights
of the plug-in. Every update brings its weights and says how many clips and steps it took and how large its loss was;
what the weights give away, and what hides it, is in [privacy](privacy.md). A vector that gives away more leaves a
device only where its owner has set the name that stands with it in `[learn]`. Noise and secure sums take `fedavg`
alone.

| method | what it does |
|---|---|
"""


def written(page: str, methods: Mapping[str, Method]) -> str:
    """The page with its part by hand as it is and a section for each method after it.

    Raises
    ------
    SettingsError
        The page has no `MARK`.
    """
    by_hand, mark, _ = page.partition(MARK)
    if not mark:
        raise SettingsError(f"{PAGE.name} does not say where the methods begin: write {MARK} there.")
    names = sorted(methods)
    rows = [f"| [`{name}`](#{_anchor(name)}) | {_cell(summary(methods[name].rule.function))} |\n" for name in names]
    return "".join([by_hand, MARK, "\n", ALL, *rows, *(section(methods[name]) for name in names)])


def section(method: Method) -> str:
    """The page's section of a method."""
    parts = [f"\n### {method.name}\n", source(method), _options(method.rule), _block(formula(method.rule.function))]
    listed = [
        ("on devices", on_devices(method)),
        ("needs", needs(method.rule_for_rounds)),
        ("goes out", "; ".join(["the model", *down(method)])),
        ("comes back", "; ".join(["the weights", *up(method)])),
    ]
    parts.append("\n".join(f"- {name}: {_sentence(text)}" for name, text in listed))
    return "\n".join(part for part in parts if part) + "\n"


def summary(function: Callable[..., object]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")


def formula(function: Callable[..., object]) -> str:
    """The first sentence with a formula of a function's docstring, or else of its module's; its first line without."""
    docstrings = (inspect.getdoc(each) or "" for each in (function, sys.modules[function.__module__]))
    parts = [part for told in docstrings for part in re.split(r"\n\w+\n-{4,}\n", told)[0].split("\n\n")]
    sentences = (each for part in parts for each in SENTENCE.split(" ".join(part.split())))
    return next((each for each in sentences if FORMULA.search(each)), summary(function))


def source(method: Method) -> str:
    """Paper, equations, decisions on them, and the files of both halves."""
    functions = [each for each in (method.before, method.after) if each not in (unchanged_before, nothing_after)]
    modules = dict.fromkeys(sys.modules[each.__module__] for each in (*functions, method.rule.function))
    told = next(inspect.getdoc(module) or "" for module in modules)
    options = type(method.rule.options)
    own = [each.description for each in list_fields(options) if each.name in options.__annotations__]
    text = "\n".join([told, *(inspect.getdoc(each) or "" for each in (method.rule.function, options)), *own])
    title = told.split("\n\n")[0].replace("\n", " ")
    equations = [each for each in dict.fromkeys(SOURCE.findall(text)) if each not in title]
    decisions = sorted(set(DECISION.findall(text)), key=lambda each: int(each[1:]))
    said = [title if title.endswith(".") else f"{title}."]
    if equations:
        said.append(f"Equations: {', '.join(equations)}.")
    if decisions:
        said.append(f"Ambiguities, as decided: {', '.join(decisions)} ([algorithms](algorithms.md)).")
    said.append(f"Code: {', '.join(_link(module) for module in modules)}.")
    return "\n".join(said) + "\n"


def on_devices(method: Method) -> str:
    """What devices do otherwise in its rounds."""
    halves = (method.before, method.after)
    told = [method.rule.plan, *(half for half in halves if half not in (unchanged_before, nothing_after))]
    return " ".join(summary(each) for each in told if each is not None and each.__doc__) or "as the plan says"


def needs(rule: Rule) -> str:
    """What a rule needs beyond updates, and what it is refused with."""
    said = [WHAT[need] for need in rule.needs] or ["nothing but the updates"]
    refused = ["asynchronous rounds"] if _is_refused(rule, mode="async") else []
    refused += ["detection"] if _is_refused(rule, detection=True) else []
    refused += [f"`--codec {TOP_K}`"] if _is_refused(rule, codec=TOP_K) else []
    text = re.sub(r"(--[a-z-]+)", r"`\1`", "; ".join(said))
    if refused:
        text += f". Not with {' or '.join(refused)}"
    if rule.step:
        text += ". It is the server's step itself: no server optimizer follows"
    return text


def _is_refused(rule: Rule, *, mode: str = "sync", detection: bool = False, codec: str = "float32") -> bool:
    """Whether a coordinator that has all there is refuses a rule in such rounds."""
    try:
        check_needs(rule, given=tuple(WHAT), mode=mode, detection=detection, codec=codec)
    except SettingsError:
        return True
    return False


def down(method: Method) -> Iterator[str]:
    """What goes out with the model, with the option that has it do so."""
    yield from (f"`{vector.name}` ({_size(vector)})" for vector in method.needs.down)
    for with_option, chosen in _chosen(method):
        if chosen.rule.tuning is not None:
            yield f"{FEATURES}{with_option}"
            return


def up(method: Method) -> Iterator[str]:
    """What comes with an update, with the option that has it do so, and the name by which an owner allows it."""
    seen: set[str] = set()
    for with_option, chosen in _chosen(method):
        rule = chosen.rule_for_rounds
        for vector in travelling(rule.plan_for(Plan()), gradients=rule.tuning is not None):
            if vector.name not in seen:
                seen.add(vector.name)
                yield f"`{vector.name}` ({_size(vector)}){with_option}, {_allowed(vector)}"


def _chosen(method: Method) -> Iterator[tuple[str, Method]]:
    """The method with its defaults, then with one switch after the other set; a text for the last one set."""
    yield "", get_method(method.name)
    on: dict[str, object] = {}
    for name, default in method.rule.settings.items():
        if default is False:
            on[name] = True
            try:
                yield f" with `{name}`", get_method(method.name, **on)
            except SettingsError:
                del on[name]


def _size(vector: Vector) -> str:
    if isinstance(vector.size, int):
        return f"{vector.size} number" + ("s" if vector.size != 1 else "")
    return "P numbers" if vector.size is of_the_plugin else "as many numbers as pack and plan say"


def _allowed(vector: Vector) -> str:
    if vector.allowed_by is None:
        return "which gives away no more than the weights do"
    without = "others decline" if vector.required else "others take part without"
    return f"from devices whose owner allows `{vector.allowed_by}`; {without}"


def _options(rule: Rule) -> str:
    if not rule.settings:
        return "No options.\n"
    fields = list_fields(type(rule.options))
    cells = ((_value(rule.settings[each.name]), describe_values(each), _cell(each.description)) for each in fields)
    rows = (f"| `{each.name}` | {' | '.join(told)} |" for each, told in zip(fields, cells, strict=True))
    return "\n".join(["| option | default | allowed | what it says |", "|---|---|---|---|", *rows]) + "\n"


def _value(value: object) -> str:
    return "none" if value is None else f"`{value}`" if isinstance(value, str) else json.dumps(value)


def _block(text: str) -> str:
    return "\n".join(["```text", *textwrap.wrap(text, WIDTH, break_on_hyphens=False), "```\n"])


def _link(module: Any) -> str:
    path = Path(module.__file__).resolve().relative_to(ROOT)
    return f"[{path.name}](../{path.as_posix()})"


def _anchor(name: str) -> str:
    return re.sub(r"[^\w-]", "", name.lower())


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Write the methods into the page, or with `--check` say whether they are those of the code; 1 where not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where the page is out of date")
    given = parser.parse_args(arguments)
    page = PAGE.read_text(encoding="utf-8")
    made = written(page, METHODS)
    if given.check:
        if made != page:
            print(f"docs/{PAGE.name} is not what the methods are: run python tools/methods_page.py")
        return int(made != page)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
