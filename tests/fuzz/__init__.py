"""Every decoder of what crosses a trust boundary, given what is almost valid: `python -m tests.fuzz --help`.

A decoder returns, or raises the refusal that its documentation names, in bounded time and memory. Anything else is a
finding, and its input is kept.
"""
