"""The agent on a device, in two slots of which one is active: installed, tried, confirmed, reverted, removed.

It has to work when all else is broken, so it uses the standard library only, and a bundle brings these modules, and
core's `packs/plain_tar.py`, as one file that the system's Python runs: `python3 -I slots.py COMMAND`, a zip archive of
the modules with their `__main__`.
That file may be replaced while it runs: everything is imported at the start, nothing inside a function.

The journal `slots.json` decides. It is replaced as a whole, and `settle` makes links, units and settings agree with it;
`settle` may be cut off anywhere and runs again at the next start. A slot is complete when it has its `bundle.json`,
which is written last and removed first.
"""
