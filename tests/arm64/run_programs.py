"""Run programs of the C library with nothing but Python and NumPy: `run_programs.py LIBRARY PROGRAMS RESULTS LEVEL`.

PROGRAMS is a file of `native_programs.py`; RESULTS gets what its records read after their last step. LEVEL is the
widest vectors to use, 0 plain to 2. What it prints is JSON.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
import time

import numpy as np


def loaded(functions, words, arena, most):
    """The library's copy of a program."""
    words = np.ascontiguousarray(words, np.int32)
    handle = functions.step_load(words.ctypes.data, words.size, arena, most)
    if not handle:
        sys.exit("the library takes a program for one that leaves its arena")
    return handle


def run(functions, handle, arena):
    """Run a program once."""
    if functions.step_run(handle, arena.ctypes.data, arena.size) != 0:
        sys.exit("the arena is too small")


def main(library, programs, results, most):
    """Run all of them."""
    functions = ctypes.CDLL(library)
    functions.step_load.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
    functions.step_load.restype = ctypes.c_void_p
    functions.step_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    found, began = {}, time.process_time()
    with np.load(programs, allow_pickle=False) as given:
        for number, record in enumerate(json.loads(given["records"].tobytes().decode())):
            start = given[f"{number}/start"]
            raw = np.zeros(start.size + functions.step_pad() + 16, np.float32)
            skip = -(raw.ctypes.data // 4) % 16
            arena = raw[skip : skip + start.size + functions.step_pad()]
            arena[: start.size] = start
            once, often = (loaded(functions, given[f"{number}/{name}"], start.size, most) for name in ("once", "words"))
            run(functions, once, arena)
            for step in range(record["steps"]):
                for name, (offset, count) in record["changes"].items():
                    arena[offset : offset + count] = given[f"{number}/{step % record['batches']}.{name}"]
                for offset, count in record["counters"]:
                    arena[offset : offset + count] = step + 1
                run(functions, often, arena)
            for name, places in record["reads"].items():
                found[f"{record['name']}/{name}"] = np.concatenate([arena[at : at + count] for at, count in places])
    np.savez(results, **found)
    return {
        "machine": platform.machine(),
        "bits": 32 if sys.maxsize < 1 << 32 else 64,
        "cpu": time.process_time() - began,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], int(sys.argv[4]))))
