"""Counting a log that is larger than memory should be: against PyArrow, which only reads it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, fresh

ROWS = int(os.environ.get("INVERSEQ_BENCHMARK_ROWS", 10_000_000))
"""So many; `INVERSEQ_BENCHMARK_ROWS=100000000` for the figures of the documentation."""
GROUP = 1_000_000
STATES, ACTIONS = 10_000, 5
REPEATS = 2
MEGABYTE = 2**20

READ = """
import json, resource, sys, time
import pyarrow.dataset as ds
began = time.perf_counter()
rows = 0
for batch in ds.dataset(sys.argv[1]).to_batches(columns=["state", "action", "next_state"]):
    rows += len(batch)
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": took, "peak": peak * 1024, "rows": rows}))
"""
COUNT = """
import json, resource, sys, time
import inverseq, inverseq._kernels, inverseq.io.files, pyarrow.dataset
began = time.perf_counter()
inverseq.read(sys.argv[3], state="state", action="action", counts=True, progress=False,
              **json.loads(sys.argv[2]))
starts = time.perf_counter() - began
began = time.perf_counter()
seen = inverseq.read(sys.argv[1], state="state", action="action", counts=True, progress=False,
                     **json.loads(sys.argv[2]))
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": took, "peak": peak * 1024, "rows": seen.reading.rows, "starts": starts,
                  "steps": seen.weights.sum(), "distinct": len(seen)}))
"""


def run() -> list[Row]:
    """Parquet to counts in fresh interpreters, wall time, best of two."""
    with tempfile.TemporaryDirectory() as above:
        folder, few = Path(above, "rows"), Path(above, "few.parquet")
        folder.mkdir()
        write(folder)
        head(folder, few)
        size = sum(file.stat().st_size for file in folder.iterdir())
        said = {
            "three columns, read by PyArrow": [fresh(READ, folder) for _ in range(REPEATS)],
            "counted, next states given": [
                fresh(COUNT, folder, '{"next_state": "next_state"}', few) for _ in range(REPEATS)
            ],
            "counted, next states derived": [
                fresh(COUNT, folder, '{"episode": "episode"}', few) for _ in range(REPEATS)
            ],
        }
    least = {what: min(each["seconds"] for each in found) for what, found in said.items()}
    read = least["three columns, read by PyArrow"]
    rows = [Row("rows", ROWS, "", note=f"{size / MEGABYTE:,.0f} MiB in files of ten row groups")]
    for what, found in said.items():
        assert all(each["rows"] == ROWS for each in found)
        given = what.endswith("given")
        rows.append(Row(what, least[what]))
        if "counted" in what:
            at_most = 3.0 if given else None
            rows.append(Row("... / reading", least[what] / read, "×", at_most=at_most))
        peak = max(each["peak"] for each in found) / MEGABYTE
        note = f"{found[0]['distinct']:,} distinct steps" if "distinct" in found[0] else ""
        if "counted" in what:
            starts = min(each["starts"] for each in found)
            rows.append(Row("... before: a log of 1,000 rows, with which Numba starts", starts))
        rows.append(Row("... peak memory", peak, "MiB", at_most=2048 if given else None, note=note))
    return rows


def head(folder: Path, few: Path) -> None:
    """The first rows alone: what begins with them once in a process is no part of the counting."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(pq.ParquetFile(min(folder.iterdir())).iter_batches(1_000))
    pq.write_table(pa.Table.from_batches([first]), few)


def write(folder: Path) -> None:
    """A walk over many states in episodes of 1,000 steps, a file for each ten row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    writer = None
    for group, begin in enumerate(range(0, ROWS, GROUP)):
        n = min(GROUP, ROWS - begin)
        # Half of a state's neighbourhood is entered by each action, and most steps are short ones.
        actions = rng.integers(ACTIONS, size=n)
        moves = 3 * actions + rng.integers(3, size=n) - 7
        states = np.cumsum(np.append(rng.integers(STATES), moves[:-1])) % STATES
        columns = {
            "state": states,
            "action": actions,
            "next_state": (states + moves) % STATES,
            "episode": (begin + np.arange(n)) // 1000,
        }
        table = pa.table(columns)
        if group % 10 == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"{group:06d}.parquet", table.schema)
        assert writer is not None
        writer.write_table(table, row_group_size=GROUP)
    if writer is not None:
        writer.close()
