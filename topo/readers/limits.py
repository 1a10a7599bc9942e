"""How much text a reader takes: what is larger is refused at once, before any of it is looked at."""

from __future__ import annotations

MAX_MATRIX_CHARS = 2**20
"""Most characters of a text with a matrix in it. The largest real matrix (72 GPUs with their NICs) has some 100,000."""

MAX_MATRIX_DEVICES = 256
"""Most devices one matrix may name: the number of pairs grows with its square."""

MAX_LISTING_CHARS = 2**24
"""Most characters of what one listing command prints. `lspci -vvv` of a machine with 8 GPUs has some 1,000,000."""
