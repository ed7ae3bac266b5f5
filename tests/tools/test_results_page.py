"""docs/results/ is made of suites' results: pages from invented ones, the method for a fleet, what is out of date."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tools import results_page
from tools.results_fleets import Fleet, fleet_row, options, read_fleets

from auricle.errors import SettingsError
from auricle_fleet.suite.plan import Method
from auricle_fleet.suite.record import Machine, SuiteRecord, Tuned
from auricle_fleet.suite.tables import Entry, Results

FLEETS = '[[fleets]]\nfleet = "attackers"\nsuite = "headlines"\ncondition = "attack"\nfigure = "unseen"\n'
METHODS = ("FedAvg", "LPA", "FedMLAC", "FedVSA, detection")


def record(name: str = "headlines", lpa: tuple[float, ...] = (0.8, 0.81, 0.79)) -> SuiteRecord:
    """Invented results of the suite `headlines`."""
    unseen = {"FedAvg": (0.5, 0.52, 0.48), "LPA": lpa, "FedMLAC": (0.7, 0.1, 0.6), "FedVSA, detection": (0.6, 0.6, 0.6)}
    return SuiteRecord(
        name=name,
        about="One & all.",
        size="small",
        command=f"auricle fleet suite {name} --jobs 2",
        versions={"auricle": "0.1.0", "python": "3.11.7"},
        machine=Machine(cores=2, processor="x86_64"),
        seeds=(0, 1, 2),
        methods=METHODS,
        conditions=("attack", "clean"),
        reference="FedAvg",
        target=None,
        setting=None,
        tuned=(),
        tables=Results(
            entries=tuple(
                Entry(figure=figure, method=method, condition=condition, values=values if known else (None,) * 3)
                for figure in ("unseen", "personal", "recall-of-detection", "false-names")
                for method, values in unseen.items()
                for condition in ("attack", "clean")
                for known in [figure == "unseen"]
            ),
            beside=(),
            reached=(),
        ),
        failed={"LPA-attack-s9": "the disk is full"},
    )


def folder(tmp_path: Path, of: SuiteRecord | None = None) -> Path:
    """A folder of pages with one suite's data."""
    place = tmp_path / "results"
    (place / "data").mkdir(parents=True)
    of = of or record()
    (place / "data" / f"{of.name}.json").write_bytes(of.as_json())
    (place / "fleets.toml").write_text(FLEETS)
    return place


def test_the_pages_here_are_those_of_the_data_here() -> None:
    assert results_page.main(["--check"]) == 0
    for fleet in read_fleets(results_page.FOLDER / "fleets.toml"):
        assert fleet.fleet


def test_a_suites_page_has_claims_with_what_the_print_says_tables_and_what_failed(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "notes").mkdir()
    (place / "notes" / "headlines.md").write_text("It is likely the rate.\n")
    assert results_page.main([], place) == 0
    page = (place / "headlines.md").read_text()
    assert page.startswith(
        "# headlines\n\nOne & all.\n\n4 methods in 2 conditions, seeds 0, 1, 2, small size, on 2 cores"
    )
    assert "<!-- not run: a suite takes up to hours -->\n\n    auricle fleet suite headlines --jobs 2\n" in page
    claims = [line for line in page.splitlines() if line.startswith("| LPA holds where FedAvg falls.")]
    assert [line.split(" | ")[2:] for line in claims] == [
        ["**shown**", "+30.0 points (+27.5 to +32.5)", "2.5", "0.250", "3 |"]
    ]
    assert "## Notes\n\nIt is likely the rate.\n" in page and "| LPA | 80.0 ± 1.0 | 80.0 ± 1.0 |" in page
    assert "| LPA-attack-s9 | the disk is full |" in page
    assert results_page.main(["--check"], place) == 0


def test_pages_that_are_out_of_date_or_of_no_suite_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder(tmp_path)
    assert results_page.main(["--check"], place) == 1
    assert results_page.main([], place) == 0
    (place / "data" / "headlines.json").write_bytes(record(lpa=(0.1, 0.1, 0.1)).as_json())
    (place / "gone.md").write_text("# Of no suite\n")
    capsys.readouterr()
    assert results_page.main(["--check"], place) == 1
    said = capsys.readouterr().err
    assert said == "docs/results/ is out of date (README.md, headlines.md, gone.md): run python tools/results_page.py\n"
    assert results_page.main([], place) == 0
    assert results_page.main(["--check"], place) == 0 and not (place / "gone.md").exists()


def test_the_first_page_says_which_method_and_all_verdicts(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "fleets.toml").write_text(FLEETS + FLEETS.replace("attackers", "a tail").replace('"headlines"', '"tail"'))
    assert results_page.main([], place) == 0
    page = (place / "README.md").read_text()
    assert (
        "| attackers | **LPA** | `auricle fleet run --preset fedavg --method lpa` | 80.0 % | 50.0 % | - "
        "| [headlines](headlines.md), attack: unseen |" in page
    )
    assert "Not run yet: a tail (`tail`)." in page
    assert "| [headlines](headlines.md) | LPA holds where FedAvg falls. (unseen, attack, by 10) | **shown** |" in page


@pytest.mark.parametrize(
    ("reached", "verdict"), [((0.2, 0.2), "**not judged; FedAvg has learnt nothing**"), ((0.2, 0.21), "**shown**")]
)
def test_a_claim_of_a_method_whose_rate_could_not_be_chosen_is_not_judged(
    tmp_path: Path, reached: tuple[float, float], verdict: str
) -> None:
    tuned = Tuned(method="FedAvg", tried=(("0.3", reached[0]), ("0.1", reached[1])), kept="0.3")
    place = folder(tmp_path, msgspec.structs.replace(record(), setting="rate", tuned=(tuned,)))
    assert results_page.main([], place) == 0
    for page in ("README.md", "headlines.md"):
        claims = [line for line in (place / page).read_text().splitlines() if "| LPA holds where FedAvg falls." in line]
        assert [verdict in line for line in claims] == [True]


def test_fedavg_is_taken_where_no_difference_is_shown() -> None:
    fleet = Fleet(fleet="any", suite="headlines", condition="clean", figure="unseen", practical="FedMLAC")
    methods = tuple(Method(name=name) for name in METHODS)
    suite = results_page.read_suite("headlines")[0]
    suite = msgspec.structs.replace(suite, methods=methods)
    row = fleet_row(fleet, record(lpa=(0.9, 0.4, 0.9)), suite)
    assert row[1] == "**FedAvg** (LPA is 23.3 % better; no difference shown: take FedAvg)"
    assert row[3:6] == ["50.0 %", "50.0 %", "46.7 %"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"condition": "atack"}, 'has no condition "atack": did you mean "attack"?'),
        ({"figure": "tail"}, 'has no figure "tail"'),
        ({"fedavg": "FedAgv"}, 'has no method "FedAgv": did you mean "FedAvg"?'),
        ({"figure": "personal"}, 'no run of "FedAvg" tells personal in the condition "attack"'),
    ],
)
def test_a_fleet_that_a_suite_cannot_answer_for_is_refused(changes: dict[str, str], said: str) -> None:
    told = {"fleet": "any", "suite": "headlines", "condition": "attack", "figure": "unseen", **changes}
    with pytest.raises(SettingsError, match=r"fleets\.toml") as refused:
        fleet_row(Fleet(**told), record(), results_page.read_suite("headlines")[0])
    assert said in str(refused.value)


def test_settings_of_a_method_are_options_of_a_run() -> None:
    settings = {"preset": "practical", "method": "mupfl", "method_options": {"pkcf": False}, "detect": True}
    said = "`auricle fleet run --preset practical --method mupfl --method-option pkcf=false --detect`"
    assert options(Method(name="m", settings=settings)) == said
    assert (
        options(Method(name="m", settings={"detection": {"margin": 0.02}}))
        == "in its file `detection = { margin = 0.02 }`"
    )
    assert options(Method(name="m")) == "-"


def test_a_suite_that_was_run_is_taken_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, run = tmp_path / "results", tmp_path / "run"
    (run / "figures").mkdir(parents=True)
    (run / "results.json").write_bytes(record(lpa=(0.123456789, 0.5, 0.5)).as_json())
    (run / "figures" / "unseen-clean.svg").write_text("<svg/>")
    (run / "figures" / "large.svg").write_text("x" * (results_page.LARGEST + 1))
    assert results_page.main(["--take", str(run)], place) == 0
    told = json.loads((place / "data" / "headlines.json").read_bytes())
    (values,) = (
        e["values"]
        for e in told["tables"]["entries"]
        if (e["figure"], e["method"], e["condition"]) == ("unseen", "LPA", "clean")
    )
    assert values == [0.123457, 0.5, 0.5]
    page = (place / "headlines.md").read_text()
    assert "![unseen-clean](figures/headlines/unseen-clean.svg)" in page and "large.svg" not in page
    assert results_page.main(["--take", str(tmp_path / "nothing")], place) == 1
    assert "has no results.json: run the suite" in capsys.readouterr().err


def test_data_that_are_not_a_suites_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder(tmp_path)
    (place / "data" / "headlines.json").write_text("{}")
    assert results_page.main([], place) == 1
    assert capsys.readouterr().err.startswith("headlines.json is not the results.json of a suite: ")
    small = record()
    (place / "data" / "headlines.json").write_bytes(msgspec.structs.replace(small, conditions=("attack",)).as_json())
    assert results_page.main([], place) == 1
    said = capsys.readouterr().err
    assert said.startswith("headlines.json is older than its suite, or of another: The claim ") and '"clean"' in said
