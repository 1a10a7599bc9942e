"""Sweeps as they run: the same bytes by any number of workers, nothing lost by a stop, a kill or a full disk."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import pytest

from sim import sweep
from sim.sweep import estimate_s, run_sweep
from sim.sweep_file import SweepFile
from sim.sweep_pieces import Piece, piece_of, pieces_of
from sim.sweep_points import RESULTS, price_points, spread_starts
from sim.sweep_spec import Spec, parse_spec
from sim.sweep_workers import Workers, dask_workers, local_workers
from tests.support import ROOT
from topo.errors import CaptureError, EnvironmentMissing, TopoError

STAR = "switch:4,bandwidth=200GB/s,latency=1us"
GRID = f"""
topology = "{STAR}"
changes = ["", "scale network bandwidth x0.5", "break GPU7-SW0"]
algorithm = ["ring", "tree", "nvls"]
size = ["1K", "1M"]
"""


def quiet(_done: int, _now: int, _elapsed_s: float) -> None:
    """Progress that nobody watches."""


class Inline(Executor):
    """An executor that does the work at once, and `fails` before pieces whose points it is told to."""

    def __init__(self, fails: Callable[[tuple[int, ...]], bool] = lambda _: False) -> None:
        self._fails = fails

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._fails(arguments[0].numbers):
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(function(*arguments))
        return future


def inline(fails: Callable[[tuple[int, ...]], bool] = lambda _: False) -> Workers:
    def opened() -> Iterator[Executor]:
        yield Inline(fails)

    return Workers(opened, 1, (BrokenExecutor,))


def swept(spec: Spec, path: Path, workers: Workers | None = None) -> bytes:
    run_sweep(spec, SweepFile(path, spec.id), workers or inline(), quiet)
    return path.read_bytes()


def rows_of(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


@pytest.fixture(scope="module")
def expected() -> bytes:
    spec = parse_spec(GRID)
    return b"".join(price_points(piece_of(spec, range(spec.num_points))))


def test_a_line_says_what_was_asked_and_what_came_of_it(expected: bytes) -> None:
    rows = rows_of(expected)
    assert [row["point"] for row in rows] == list(range(18))
    assert {row["schema"] for row in rows} == {"sweep/1"}
    assert all(set(RESULTS) <= row.keys() for row in rows)
    fine = [row for row in rows if row["error"] is None]
    assert len(fine) == 2 * 2 * 2
    assert all(row["busbw_bytes_per_s"] > 0 and row["limiting_link"] for row in fine)


def test_a_point_that_fails_says_why_and_stops_nothing(expected: bytes) -> None:
    errors = {row["changes"]: row["error"] for row in rows_of(expected) if row["error"]}
    assert "nvls needs an NVSwitch" in errors[""]
    assert "unknown part 'GPU7'" in errors["break GPU7-SW0"]


def test_a_slower_network_is_slower_in_the_lines_too(expected: bytes) -> None:
    fine = {(r["changes"], r["algorithm"], r["num_bytes"]): r["time_s"] for r in rows_of(expected) if not r["error"]}
    for algorithm in ("ring", "tree"):
        assert fine["scale network bandwidth x0.5", algorithm, 2**20] > fine["", algorithm, 2**20]


def test_a_worker_gets_its_points_and_no_more_of_the_grid(expected: bytes) -> None:
    spec = parse_spec(GRID)
    sent = [pickle.dumps(piece) for piece in pieces_of(spec, (), 2)]
    assert b"".join(line for one in sent for line in price_points(pickle.loads(one))) == expected
    for count in (512, 100_000):
        grid = parse_spec(f'topology = "{STAR}"\nsize = {list(range(2**20, 2**20 + count))}')
        piece = next(pieces_of(grid, (), 1))
        assert len(piece.points) == 64
        assert len(pickle.dumps(piece)) < 64 * 100


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_processes_gives_the_same_bytes(count: int, expected: bytes, tmp_path: Path) -> None:
    assert swept(parse_spec(GRID), tmp_path / "out.jsonl", local_workers(count)) == expected


@pytest.mark.parametrize("kept", [0, 1, 7, 18])
@pytest.mark.parametrize("torn", [b"", b'{"schema":"sweep/1","sw'])
def test_a_sweep_that_was_stopped_goes_on_where_it_was(kept: int, torn: bytes, expected: bytes, tmp_path: Path) -> None:
    path, spec = tmp_path / "out.jsonl", parse_spec(GRID)
    path.write_bytes(b"".join(expected.splitlines(keepends=True)[:kept]) + torn)
    file = SweepFile(path, spec.id)
    assert len(file.done) == kept
    done = run_sweep(spec, file, inline(), quiet)
    assert (done.num_before, done.num_now) == (kept, 18 - kept)
    assert path.read_bytes() == expected


def test_lines_that_came_in_any_order_are_put_in_order(expected: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(reversed(expected.splitlines(keepends=True)[5:])))
    assert swept(parse_spec(GRID), path) == expected


@pytest.mark.parametrize(
    "content", [b"not a line\n", b'{"point": 1}\n', b"[]\n", b'{"schema":"a","sweep":"b","point":1}\n']
)
def test_a_file_of_something_else_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match="line 1"):
        SweepFile(path, "0123456789ab")
    assert path.read_bytes() == content


def test_a_file_of_another_sweep_is_left_alone(expected: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(expected)
    with pytest.raises(CaptureError, match="a line of another sweep"):
        SweepFile(path, parse_spec(GRID.replace("1K", "2K")).id)


def test_a_file_of_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"ends in \.jsonl or \.parquet"):
        SweepFile(tmp_path / "out.xlsx", "0123456789ab")


def test_a_worker_that_dies_once_loses_nothing(expected: bytes, tmp_path: Path) -> None:
    deaths = [True, True]
    assert swept(parse_spec(GRID), tmp_path / "out.jsonl", inline(lambda _: bool(deaths) and deaths.pop())) == expected


def test_a_point_that_always_kills_is_the_only_one_that_fails(expected: bytes, tmp_path: Path) -> None:
    rows = rows_of(swept(parse_spec(GRID), tmp_path / "out.jsonl", inline(lambda points: 4 in points)))
    assert [row["point"] for row in rows] == list(range(18))
    assert "was killed" in rows[4].pop("error")
    others = [row for row in rows if row["point"] != 4]
    assert others == [row for row in rows_of(expected) if row["point"] != 4]


def program(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a program of its own does, from a file, since workers import it again."""
    (folder / "run.py").write_text(text)
    return subprocess.run(
        [sys.executable, "run.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


WORKERS_WITH_WORK_LEFT = """
import sys
from sim.sweep_workers import local_workers

if __name__ == "__main__":
    num_bytes, num_done = map(int, sys.argv[1:])
    for executor in local_workers(1).open():
        futures = [executor.submit(len, bytes(num_bytes)) for _ in range(6)]
        print(*(future.result() for future in futures[:num_done]))
"""


@pytest.mark.parametrize("num_bytes", [0, 2**20])
@pytest.mark.parametrize("num_done", [0, 2, 6])
def test_a_program_ends_whatever_is_queued_for_its_workers(num_bytes: int, num_done: int, tmp_path: Path) -> None:
    """More than a pipe holds may be queued when nobody reads it any more."""
    done = program(tmp_path, WORKERS_WITH_WORK_LEFT, str(num_bytes), str(num_done))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(num_bytes)] * num_done


WITH_A_SLOW_QUEUE = """
import threading
import time
from multiprocessing import queues, resource_tracker, synchronize
from sim.sweep_workers import local_workers

def clean(name):
    synchronize.sem_unlink(name)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.5)
    resource_tracker.unregister(name, "semaphore")

def feed(*arguments, feed=queues.Queue._feed):
    feed(*arguments)
    time.sleep(0.1)

synchronize.SemLock._cleanup = staticmethod(clean)
queues.Queue._feed = staticmethod(feed)

if __name__ == "__main__":
    for executor in local_workers(1).open():
        print(executor.submit(len, b"").result())
    time.sleep(0.2)
"""


def test_what_a_queue_frees_late_is_waited_for(tmp_path: Path) -> None:
    """The program ends while the queue's thread gives a semaphore back: nobody warns of a leak."""
    done = program(tmp_path, WITH_A_SLOW_QUEUE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_process_leaves_ctrl_c_to_its_parent_from_its_first_instruction() -> None:
    """A traceback of its own, from the middle of its imports, would stand over what the parent says."""
    for executor in local_workers(1).open():
        assert signal.SIGINT in executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_process_that_is_killed_loses_nothing(
    expected: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker that begins is killed with what it has."""
    victim = tmp_path / "victim"
    monkeypatch.setattr(sweep, "price_points", _Killing(str(victim)))
    assert swept(parse_spec(GRID), tmp_path / "out.jsonl", local_workers(2)) == expected
    assert victim.exists()


class _Killing:
    """Prices points, save in the first process that comes by: that one kills itself."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, piece: Piece) -> list[bytes]:
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return price_points(piece)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_workers_that_are_gone_leave_what_is_done(expected: bytes, tmp_path: Path) -> None:
    def opened() -> Iterator[Executor]:
        yield Inline(lambda points: 4 in points)

    workers = Workers(opened, 1, (ZeroDivisionError,), (BrokenExecutor,), "the scheduler at nowhere")
    spec, path = parse_spec(GRID), tmp_path / "out.jsonl"
    with pytest.raises(EnvironmentMissing, match="the scheduler at nowhere is gone"):
        run_sweep(spec, SweepFile(path, spec.id), workers, quiet)
    assert 0 < len(path.read_bytes().splitlines()) < 18
    assert swept(spec, path) == expected


@pytest.mark.parametrize("kept", [0, 5])
def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(kept: int, expected: bytes, tmp_path: Path) -> None:
    path, spec = tmp_path / "out.jsonl", parse_spec(GRID)
    whole = b"".join(expected.splitlines(keepends=True)[:kept])
    path.write_bytes(whole)
    file = SweepFile(path, spec.id)
    file._stream.close()
    with Path("/dev/full").open("wb", buffering=0) as full:
        file._stream = full
        with pytest.raises(TopoError, match="No space left"):
            run_sweep(spec, file, inline(), quiet)
    assert path.read_bytes() == whole
    assert swept(spec, path) == expected


def test_parquet_holds_the_same_rows(expected: bytes, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path, spec = tmp_path / "out.parquet", parse_spec(GRID)
    first = SweepFile(path, spec.id)
    first.append((0,), price_points(piece_of(spec, (0,))))
    first.close()
    swept(spec, path)
    assert pq.read_table(path).to_pylist() == rows_of(expected)
    assert sorted(tmp_path.iterdir()) == [path]
    with pytest.raises(CaptureError, match="there and complete"):
        SweepFile(path, spec.id)


def test_starts_are_spread_alike_everywhere() -> None:
    spec = parse_spec(f'topology = "{STAR}"\njitter = "20us"\nlate_ranks = 1\nlate_by = "1ms"\nseed = "0-9"')
    for seed in range(10):
        starts_s = spread_starts(spec, seed, 4)
        assert starts_s == spread_starts(spec, seed, 4)
        assert sum(start >= 1e-3 for start in starts_s) == 1
        assert all(start <= 1e-3 + 20e-6 for start in starts_s)
    assert len({spread_starts(spec, seed, 4) for seed in range(10)}) == 10
    assert spread_starts(spec, None, 4, (1.0,)) == (1.0,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes = 500000", "nodes = 500000: 4,000,000 ranks need about"),
        ("nodes = [1000000]", "nodes fit"),
        ('algorithm = "direct"', "direct runs all_to_all"),
        ('changes = "nodes 500000"', "500,000 nodes: 4,000,000 ranks need about"),
        ('late_ranks = 99\nlate_by = "1ms"', "late_ranks = 99 of 8 ranks: at most 8 can be late"),
    ],
)
def test_a_point_that_nothing_can_hold_is_failed_at_once(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topo.cli_common._memory_bytes", lambda: 2**34)
    spec = parse_spec(f'topology = "dgx-h100"\n{text}')
    file = SweepFile(tmp_path / "out.jsonl", spec.id)
    run_sweep(spec, file, inline(), quiet)
    assert file.num_failed == 1
    assert file.failure is not None
    assert says in file.failure[1]


def test_failures_are_counted_as_they_come_and_as_they_are_found_again(expected: bytes, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_bytes(b"".join(reversed(expected.splitlines(keepends=True))))
    file = SweepFile(tmp_path / "out.jsonl", parse_spec(GRID).id)
    file.close()
    errors = {row["point"]: row["error"] for row in rows_of(expected) if row["error"]}
    assert file.num_failed == len(errors) > 0
    assert file.failure == min(errors.items())


def test_every_algorithm_is_every_one_that_the_machine_can_run() -> None:
    spec = parse_spec(f'topology = "{STAR}"\nalgorithm = "all"\nsize = "1M"')
    rows = rows_of(b"".join(price_points(piece_of(spec, range(spec.num_points)))))
    priced = {row["algorithm"] for row in rows if row["time_s"] is not None}
    assert {"ring", "tree"} <= priced < {row["algorithm"] for row in rows}
    assert not any(row["error"] for row in rows)


def test_seeds_change_times_and_nothing_else() -> None:
    spec = parse_spec(f'topology = "{STAR}"\njitter = "20us"\nseed = "1-3"\nalgorithm = "ring"\nsize = "1M"')
    rows = rows_of(b"".join(price_points(piece_of(spec, range(3)))))
    assert len({row["time_s"] for row in rows}) == 3
    assert {row["ran_algorithm"] for row in rows} == {"ring"}


def test_an_estimate_is_made_of_three_points() -> None:
    spec = parse_spec(f'topology = "{STAR}"\nnodes = "1-1000"\nalgorithm = "ring"\nsize = {list(range(4, 404, 4))}')
    assert estimate_s(spec, 2) > 0


def test_nothing_answers_where_no_scheduler_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep_workers.CONNECT_S", 0.2)
    with pytest.raises(EnvironmentMissing, match="no scheduler answers there"):
        dask_workers("tcp://127.0.0.1:9")


ON_A_CLUSTER = """
import sys
from pathlib import Path
from distributed import LocalCluster
from sim.sweep import run_sweep
from sim.sweep_file import SweepFile
from sim.sweep_spec import read_spec
from sim.sweep_workers import dask_workers

if __name__ == "__main__":
    spec = read_spec(Path("grid.toml"))
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None)
    with LocalCluster(host="127.0.0.1", **options) as cluster:
        workers = dask_workers(cluster.scheduler_address)
        run_sweep(spec, SweepFile(Path("grid.jsonl"), spec.id), workers, lambda *_: None)
    print(workers.count)
"""


def test_two_dask_workers_give_the_same_bytes(expected: bytes, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "run.py").write_text(ON_A_CLUSTER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
    assert (tmp_path / "grid.jsonl").read_bytes() == expected


def topo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from topo.cli import main; main(prog_name='topo')", "sweep", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_writes_resumes_and_says_so(expected: bytes, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    first = topo("grid.toml", "--jobs", "1", cwd=tmp_path)
    assert first.returncode == 1, first.stderr
    assert "10 of 18 points failed, such as point 4: nvls needs an NVSwitch" in " ".join(first.stderr.split())
    assert (tmp_path / "grid.jsonl").read_bytes() == expected
    again = topo("grid.toml", cwd=tmp_path)
    assert again.returncode == 1
    assert "18 points, 0 of them now" in again.stderr
    assert "10 of 18 points failed" in again.stderr


def test_a_sweep_of_which_no_point_fails_ends_well(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(f'topology = "{STAR}"\nalgorithm = "ring"')
    done = topo("grid.toml", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["no.toml"], 2, "cannot be read"),
        (["grid.toml", "--jobs", "1", "--scheduler", "tcp://x:1"], 2, "use one of them"),
        (["grid.toml", "-o", "out.xlsx"], 2, "ends in .jsonl or .parquet"),
        (["grid.toml", "-o", "nowhere/out.jsonl"], 2, "cannot be written"),
        (["huge.toml"], 2, "asks for 1,000,000,000 points"),
        (["huge.toml"], 2, "add --yes"),
        (["wide.toml"], 2, "asks for 1,000,000 points"),
        (["far.toml"], 2, "nodes: 100000000000: a whole number from 1 to 1000000 is needed"),
        (["odd.toml"], 2, "did you mean 'nodes'"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(arguments: list[str], status: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "odd.toml").write_text(f'topology = "{STAR}"\nnodez = 2')
    (tmp_path / "wide.toml").write_text('topology = "dgx-h100"\nnodes = "1-1000000"')
    (tmp_path / "far.toml").write_text('topology = "dgx-h100"\nnodes = "1-100000000000"')
    (tmp_path / "huge.toml").write_text(
        f'topology = "{STAR}"\nalgorithm = "ring"\nnodes = "1-1000"\nseed = "1-1000"\njitter = "1us"\n'
        f"size = {list(range(4, 4004, 4))}"
    )
    done = topo(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert says in " ".join(done.stderr.split())
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(f'topology = "{STAR}"\nalgorithm = "ring"\nsize = {list(range(4, 400_004, 4))}')
    out = tmp_path / "long.jsonl"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
            "from topo.cli import main; main(prog_name='topo')",
            "sweep",
            "long.toml",
            "--jobs",
            "1",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (out.exists() and out.stat().st_size):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "to go on: topo sweep long.toml --jobs 1" in said
    assert "Traceback" not in said
    lines = out.read_bytes().splitlines()
    assert 0 < len(lines) < 100_000
    assert [json.loads(line)["point"] for line in lines] == list(range(len(lines)))


def test_one_file_is_for_one_sweep_at_a_time(tmp_path: Path) -> None:
    spec, path = parse_spec(GRID), tmp_path / "out.jsonl"
    first = SweepFile(path, spec.id)
    with pytest.raises(TopoError, match="another sweep is writing there"):
        SweepFile(path, spec.id)
    first.close()
    SweepFile(path, spec.id).close()


@pytest.mark.parametrize("target", ["/dev/full", "/dev/zero", "."])
def test_what_is_no_file_is_no_place_for_a_sweep(tmp_path: Path, target: str) -> None:
    path = tmp_path / "out.jsonl"
    path.symlink_to(target)
    with pytest.raises(CaptureError, match="no regular file"):
        SweepFile(path, parse_spec(GRID).id)


@pytest.mark.parametrize("axis", ["collective", "algorithm", "planner", "engine", "protocol"])
def test_a_name_that_nothing_has_is_refused_before_anything_is_priced(axis: str) -> None:
    with pytest.raises(CaptureError, match=f"grid.toml: {axis}: unknown {axis} 'no-such'"):
        parse_spec(f'topology = "{STAR}"\n{axis} = ["no-such"]', "grid.toml")


def test_a_server_is_a_change_of_the_algorithm_too() -> None:
    spec = parse_spec('topology = "dgx-h100"\nchanges = ["", "server GPU0"]\nsize = "1M"')
    without, served = rows_of(b"".join(price_points(piece_of(spec, range(2)))))
    assert without["ran_algorithm"] != "parameter-server"
    assert (served["ran_algorithm"], served["error"]) == ("parameter-server", None)


def test_names_of_several_algorithms_are_a_list() -> None:
    for text in ('"ring,tree"', '["ring", "all"]'):
        with pytest.raises(CaptureError, match="more than one algorithm"):
            parse_spec(f'topology = "{STAR}"\nalgorithm = {text}')
