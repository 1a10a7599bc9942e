#!/usr/bin/env bash
# Everything that one GPU machine can show in under 5 minutes, left as one JSON document.
#
#   tests/gpu/check.sh [RESULT.json]
#
# Needs `topo` with torch (make setup) and at least one NVIDIA GPU. Single steps may fail: each leaves its exit status,
# its output and its own document, so that one run tells as much as it can. The exit status is 1 where a step failed
# that should have passed, 3 where there is no GPU.
set -uo pipefail

result="$(realpath -m "${1:-gpu-check.json}")"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python="${PYTHON:-$root/.venv/bin/python}"
[[ -x "$python" ]] || python=python3
topo=("$python" -m topo.start)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
deadline=$((SECONDS + ${CHECK_SECONDS:-280}))

gpus="$("$python" -c 'import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)' 2>/dev/null || echo 0)"
if ((gpus < 1)); then
  echo "check.sh: torch sees no GPU here: nothing can be shown" >&2
  [[ "${CHECK_WITHOUT_GPU:-}" == 1 ]] || exit 3
fi

# step NAME SECONDS COMMAND...: run it within the time that is left, and keep all it says.
step() {
  local name="$1" limit="$2" left=$((deadline - SECONDS)) begin=$SECONDS status
  shift 2
  ((left < limit)) && limit=$left
  if ((limit < 5)); then
    echo "skipped: no time is left" >"$work/$name.err"
    status=-1
  else
    timeout -k 5 "$limit" "$@" >"$work/$name.out" 2>"$work/$name.err"
    status=$?
  fi
  printf '%s\t%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - begin))" "$*" >>"$work/steps.tsv"
  echo "check.sh: $name: exit $status after $((SECONDS - begin)) s" >&2
}

# measure NAME SECONDS OPTIONS...: a run of ours, its document kept.
measure() {
  local name="$1" limit="$2"
  shift 2
  step "$name" "$limit" "${topo[@]}" validate run "$@" --timeout "$((limit - 5))" --format json -o "$work/$name.json"
}

small=(-b 8 -e 64M -f 8)
large=(--size 256M,1G -n 10 -w 3)

step discover 20 "${topo[@]}" discover --format json
step doctor 20 "${topo[@]}" doctor "$work/discover.out"
if ((gpus < 2)); then
  measure one-rank 40 --backend nccl --ranks 1 --algorithm builtin "${small[@]}"
  measure two-ranks-on-one-gpu 60 --backend nccl --ranks 2 --algorithm builtin,ring,tree,parameter-server "${small[@]}"
  measure two-ranks-messages 45 --backend nccl --ranks 2 --executor point-to-point --algorithm ring,tree "${small[@]}"
  measure two-ranks-graph 40 --backend nccl --ranks 2 --algorithm builtin --cuda-graph "${small[@]}"
else
  measure builtin 60 --backend nccl --algorithm builtin "${small[@]}"
  measure builtin-large 30 --backend nccl --algorithm builtin "${large[@]}"
  measure forced 60 --backend nccl --algorithm ring,tree,nvls --protocol ll,ll128,simple -b 1K -e 64M -f 64 -n 10
  measure schedules 45 --backend nccl --executor point-to-point --algorithm ring,tree,parameter-server "${small[@]}"
  measure graph 30 --backend nccl --algorithm builtin --cuda-graph "${small[@]}"
  for collective in all_gather reduce_scatter broadcast reduce all_to_all; do
    measure "$collective" 25 --backend nccl --collective "$collective" --algorithm builtin -b 1K -e 64M -f 64 -n 10
  done
  measure gate 30 --backend nccl --algorithm builtin --size 256M --min-ratio 0.5 --retries 1
fi
step tests 60 "$python" -m pytest -q -p no:cacheprovider "$root/tests/validate/test_run_recorded.py"

"$python" - "$work" "$result" "$gpus" <<'PYTHON'
import json
import pathlib
import platform
import sys

work, result, gpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
steps = []
for line in (work / "steps.tsv").read_text().splitlines():
    name, status, seconds, command = line.split("\t", 3)
    texts = {part: work / f"{name}.{part}" for part in ("out", "err", "json")}
    document = None
    if texts["json"].exists():
        try:
            document = json.loads(texts["json"].read_text())
        except ValueError:
            document = None
    said = {part: texts[part].read_text(errors="replace")[-20000:] for part in ("out", "err") if texts[part].exists()}
    steps.append({"name": name, "status": int(status), "seconds": int(seconds), "said": said, "document": document})
plain = {"schema": "gpu-check/1", "num_gpus": gpus, "python": platform.python_version(), "steps": steps}
result.write_text(json.dumps(plain, indent=1) + "\n")
failed = [step["name"] for step in steps if step["status"] not in (0, 1)]
for step in steps:
    for row in (step["document"] or {}).get("rows", []):
        if row["correct"] is False:
            failed.append(f"{step['name']} (wrong result)")
print(f"check.sh: {len(steps)} steps in {result}" + (f"; failed: {', '.join(failed)}" if failed else ""), file=sys.stderr)
sys.exit(1 if failed else 0)
PYTHON
