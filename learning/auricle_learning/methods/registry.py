"""The methods by name, and how one is found: all of them are imported here, and so are all rules."""

from __future__ import annotations

from dataclasses import replace

from auricle.errors import SettingsError, nearest, refuse_misfits
from auricle.process.plugins import entry_points_of, guard
from auricle.settings import show
from auricle_learning.aggregation.rules.acmu import PKCF, AcmuOptions, acmu, acmu_plan, acmu_tuning
from auricle_learning.aggregation.rules.declaration import check_declaration
from auricle_learning.aggregation.rules.dnc import DncOptions, dnc
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions, fedavg
from auricle_learning.aggregation.rules.fedlaw import FedLawOptions, fedlaw
from auricle_learning.aggregation.rules.fednova import FedNovaOptions, fednova
from auricle_learning.aggregation.rules.fedopt import FedOptOptions, fedopt
from auricle_learning.aggregation.rules.fedprox import FedProxOptions, fedprox, fedprox_plan
from auricle_learning.aggregation.rules.fedrpo import FedRpoOptions, fedrpo, fedrpo_plan
from auricle_learning.aggregation.rules.fedvsa import FedVsaOptions, fedvsa, fedvsa_plan
from auricle_learning.aggregation.rules.geometric_median import GeometricMedianOptions, geometric_median
from auricle_learning.aggregation.rules.krum import KrumOptions, krum
from auricle_learning.aggregation.rules.lpa import LpaOptions, lpa
from auricle_learning.aggregation.rules.lpa_fedvsa import LpaFedVsaOptions, lpa_fedvsa, lpa_fedvsa_plan
from auricle_learning.aggregation.rules.median import median
from auricle_learning.aggregation.rules.multi_krum import multi_krum
from auricle_learning.aggregation.rules.norm_clip import NormClipOptions, norm_clip
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.trimmed_mean import TrimmedMeanOptions, trimmed_mean
from auricle_learning.aggregation.rules.zeno import ZenoOptions, zeno
from auricle_learning.methods import plugins
from auricle_learning.methods.creff import CREFF
from auricle_learning.methods.ditto import DITTO
from auricle_learning.methods.feddc import FEDDC
from auricle_learning.methods.feddisco import FEDDISCO
from auricle_learning.methods.feddyn import FEDDYN
from auricle_learning.methods.fedkad import FEDKAD
from auricle_learning.methods.fedmlac import FEDMLAC
from auricle_learning.methods.fedrep import FEDREP
from auricle_learning.methods.local_only import LOCAL
from auricle_learning.methods.method import Method
from auricle_learning.methods.mupfl import MUPFL
from auricle_learning.methods.scaffold import SCAFFOLD

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        CREFF,
        DITTO,
        FEDDC,
        FEDDISCO,
        FEDDYN,
        FEDKAD,
        FEDMLAC,
        FEDREP,
        LOCAL,
        MUPFL,
        SCAFFOLD,
        *map(
            Method,
            (
                Rule("fedavg", fedavg, FedAvgOptions(), mean=True, composes=True),
                Rule("fedprox", fedprox, FedProxOptions(), mean=True, plan=fedprox_plan, composes=True),
                Rule("lpa", lpa, LpaOptions(), mean=True, composes=True),
                Rule(
                    "fedvsa",
                    fedvsa,
                    FedVsaOptions(),
                    weight="fedvsa",
                    mean=True,
                    by_losses=True,
                    plan=fedvsa_plan,
                    composes=True,
                ),
                Rule(
                    "lpa+fedvsa",
                    lpa_fedvsa,
                    LpaFedVsaOptions(),
                    weight="fedvsa",
                    mean=True,
                    plan=lpa_fedvsa_plan,
                    composes=True,
                ),
                Rule("median", median, weight="uniform", by_value=True),
                Rule("trimmed-mean", trimmed_mean, TrimmedMeanOptions(), weight="uniform", by_value=True),
                Rule("krum", krum, KrumOptions(), mean=True),
                Rule("multi-krum", multi_krum, KrumOptions(), mean=True),
                Rule("geometric-median", geometric_median, GeometricMedianOptions(), by_distance=True),
                Rule("raf", geometric_median, GeometricMedianOptions(), by_distance=True),
                Rule("norm-clip", norm_clip, NormClipOptions(), composes=True),
                Rule("dnc", dnc, DncOptions(), weight="uniform", mean=True),
                Rule("fedopt", fedopt, FedOptOptions(), needs=("server-state",), step=True, composes=True),
                Rule("fednova", fednova, FedNovaOptions(), moves=True, needs=("steps",), composes=True),
                Rule("zeno", zeno, ZenoOptions(), weight="uniform", needs=("labelled-clips",)),
                Rule("fedlaw", fedlaw, FedLawOptions(), needs=("labelled-clips",)),
                Rule("fedrpo", fedrpo, FedRpoOptions(), needs=("labelled-clips",), plan=fedrpo_plan, step=True),
                Rule(
                    "acmu",
                    acmu,
                    AcmuOptions(),
                    needs=("personal-models",),
                    plan=acmu_plan,
                    tunes=acmu_tuning,
                    tuning_options=PKCF,
                ),
            ),
        ),
    )
}
"""Those that come with auricle; a rule alone is one whose devices do what the plan says and no more."""

RULES: dict[str, Rule] = {name: method.rule_for_rounds for name, method in METHODS.items()}
"""Their halves at the coordinator."""


def rule_names() -> list[str]:
    """Names of all rules, those of other packages included; nothing of theirs is imported."""
    return sorted({*RULES, *entry_points_of(plugins.GROUP)})


def get_rule(name: str, /, **options: object) -> Rule:
    """Find a rule and set its options, refusing at configuration what would fail in a round.

    Parameters
    ----------
    name
        One of `RULES`, or a rule of another package (entry point group `auricle.rules`), which cannot take the name of
        one of ours.
    options
        Keyword options of that rule; those not given keep their defaults.

    Raises
    ------
    SettingsError
        The rule or an option does not exist, a value is not allowed, or another package's rule cannot be loaded.
    """
    return get_method(name, **options).rule_for_rounds


@refuse_misfits
def get_method(name: str, /, **options: object) -> Method:
    """Find a method and set the options of its rule; as `get_rule`, which gives its half at the coordinator.

    Raises
    ------
    SettingsError
        As of `get_rule`.
    """
    if not isinstance(name, str):
        raise SettingsError(f"a method is named by a text, not by {show(name)}; {nearest('', rule_names())}")
    method = METHODS.get(name) or _of_another_package(name)
    chosen = guard(method.rule.with_options, "method", f'the method "{name}"', SettingsError)(options)
    check_declaration(chosen)
    return replace(method, rule=chosen)


def _of_another_package(name: str) -> Method:
    others = entry_points_of(plugins.GROUP)
    if name not in others:
        raise SettingsError(f'there is no method "{name}"; {nearest(name, rule_names())}')
    return plugins.load(name, others[name])
