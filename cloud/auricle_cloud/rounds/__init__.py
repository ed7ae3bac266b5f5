"""Rounds, synchronous and asynchronous, from planned to published.

Each arrow is one transaction, and a coordinator that starts goes on with the state that it finds (PROTOCOL section 6)::

    planned ----------------------> inviting -> collecting --------------> closing -> aggregated -> published
    planned -> losses ------------> inviting
    planned ---------> alarm ---> inviting
               losses -> alarm ---> inviting
    planned -> keys ---> shares --> inviting    collecting -> revealing -> closing

The first line is that of every round, the next three are of detection in two phases (the second of these without its
first), the last of secure sums. From every state before closing a round may become aborted as well.

========== =================================================================================================
state      what happens in it, and where
========== =================================================================================================
planned    the round waits its turn and for a device that can be invited; its cohort is drawn (`cohort_choice`)
losses     the cohort says how large the model's loss is on its clips (`poisoning`)
alarm      who poisoned the model is looked for, and the model repaired (`poisoning`)
keys       the cohort gives keys for a secure sum (`secure`)
shares     each device shares its secrets among its neighbours (`secure`)
inviting   invitations go out (`synchronous`, `asynchronous`)
collecting updates come in, until `policy` says that it is enough
revealing  the devices that came reveal what takes the masks off their sum (`secure`)
closing    no further update counts; the rule makes the next model (`closing`)
aggregated the model is in the database; it is published (`closing`)
published  the end
aborted    the other end: no quorum, a model that most devices find worse, or an operator's word
========== =================================================================================================

`policy` decides, as pure functions of values, and `states/round.py` has the arrows; the rest does what they say.
"""
