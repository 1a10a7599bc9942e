"""Where the command `topo` begins: Ctrl-C ends it without a traceback even while everything else is being imported."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import MutableMapping

MANY_OBJECTS = 1_000_000

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""The variables by which OpenBLAS, which numpy brings along, is told how many threads to start, the strongest first."""


def main() -> None:
    """Run the command line and exit.

    Until it can say "interrupted" itself, and after that, SIGINT ends the process as it ends any program that does not
    care; where it is ignored (`nohup`, a job in the background) it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Devices and links of a cluster live to the end of a run: looking for garbage among them every few hundred objects
    # costs a tenth of it.
    gc.set_threshold(MANY_OBJECTS, *gc.get_threshold()[1:])
    _one_blas_thread(os.environ)
    from topo.cli import main as command

    sys.exit(command())


def _one_blas_thread(environment: MutableMapping[str, str]) -> None:
    """Leave matrices to this thread, unless the user has said otherwise: they are small here.

    OpenBLAS starts a thread per core as numpy is imported, and these spin before they sleep: on two cores a quarter of
    what the import costs.
    """
    if not any(name in environment for name in BLAS_THREADS):
        environment[BLAS_THREADS[0]] = "1"


if __name__ == "__main__":
    main()
