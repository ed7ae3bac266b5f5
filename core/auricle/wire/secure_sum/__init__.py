"""Secure aggregation: a server learns the sum of what many devices have, and nothing of a single one.

Bonawitz et al. 2017 (https://eprint.iacr.org/2017/281) with the sparse graph of SecAgg+ (Bell et al. 2020,
https://eprint.iacr.org/2020/704), towards a server that follows the protocol and looks at everything.
Rounds use it where a coordinator is told to (`rounds/secure/` of the cloud, `fleet/secure_sum/` of the edge).
"""
