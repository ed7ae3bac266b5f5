"""The methods of federated learning by name: each a rule at the coordinator, some with a half on devices."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_learning.aggregation.rules.rule import Rule
    from auricle_learning.methods.method import Method, Server
    from auricle_learning.methods.method_settings import MethodSettings
    from auricle_learning.methods.registry import METHODS, RULES, get_method, get_rule, rule_names

__all__ = ["METHODS", "RULES", "Method", "MethodSettings", "Rule", "Server", "get_method", "get_rule", "rule_names"]

if not TYPE_CHECKING:  # a device imports the registry, with all rules of coordinators, in its first round
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Rule": "auricle_learning.aggregation.rules.rule",
            "Method": "auricle_learning.methods.method",
            "Server": "auricle_learning.methods.method",
            "MethodSettings": "auricle_learning.methods.method_settings",
            **dict.fromkeys(
                ("METHODS", "RULES", "get_method", "get_rule", "rule_names"),
                "auricle_learning.methods.registry",
            ),
        },
    )
