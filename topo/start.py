"""Where the command `topo` begins: Ctrl-C ends it without a traceback even while everything else is being imported."""

from __future__ import annotations

import gc
import signal
import sys

MANY_OBJECTS = 100_000


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
    from topo.cli import main as command

    sys.exit(command())


if __name__ == "__main__":
    main()
