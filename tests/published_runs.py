"""Writes validate/published/runs.jsonl from a folder of `measurement/1` documents: one a line, by file name.

`python -m tests.published_runs` takes those of the corpus; `make runs` calls it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import NO_CORPUS, corpus_files
from validate.published.runs import SHIPPED


def lines_of(files: list[Path]) -> str:
    """The text of runs.jsonl: each document on one line, its keys as they stand, numbers unchanged."""
    documents = [json.loads(path.read_text()) for path in files]
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in documents)


def main() -> None:
    """Writes the file; exits with a sentence where there is no corpus."""
    files = corpus_files("measurements/*.json")
    if not files:
        sys.exit(NO_CORPUS)
    SHIPPED.write_text(lines_of(files))


if __name__ == "__main__":
    main()
