"""Processes side by side, one thread each: they share the cores among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread for each process."""


def side_by_side(
    work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], workers: int | None
) -> Iterator[tuple[int, Any]]:
    """Results of a function of a module, as they finish: (number of the arguments, result).

    With ``None`` there are as many processes as cores; with 0 all is done in this one.

    >>> sorted(side_by_side(max, [(1, 2), (5, 3)], workers=1))
    [(0, 2), (1, 5)]
    """
    if workers == 0:
        yield from ((number, work(*given)) for number, given in enumerate(jobs))
        return
    workers = min(workers or os.cpu_count() or 1, max(len(jobs), 1))
    # Libraries with threads of their own do not survive a fork.
    context = get_context("spawn")
    with one_thread(), ProcessPoolExecutor(workers, context, initializer=follow) as pool:
        running: dict[Future[Any], int] = {}
        try:
            for number, given in enumerate(jobs):
                running[pool.submit(work, *given)] = number
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def follow() -> None:
    """Let a process end with the one that started it, however that ended.

    A pool whose owner was killed would go on with all that was asked for.
    """
    owner = parent_process()
    assert owner is not None

    def watch() -> None:
        owner.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """Processes that are started meanwhile use one thread each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update({name: os.environ.get(name, value) for name, value in ONE_THREAD.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
