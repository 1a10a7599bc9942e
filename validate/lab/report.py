"""What a lab's run says: rows for the table and the document, and the sentences beside them."""

from __future__ import annotations

import statistics
from typing import Any

from topo.cores import num_cores
from topo.jsonio import to_plain
from topo.table import Column, Table
from topo.units import format_rate
from topo.words import counted
from validate import sentences
from validate.held_out import held_out
from validate.lab.session import Lab
from validate.lab.trial import Trial
from validate.report import comparison_rows, comparison_table

SCHEMA = "validate-lab/1"


def document(lab: Lab) -> dict[str, Any]:
    """The JSON document's content, without its schema."""
    return {
        "rows": [{"fabric": trial.fabric, **row} for trial in lab.trials for row in _rows(trial)],
        "summary": summary(lab),
        "held_out": [to_plain(row) for row in held_out(lab.comparisons)],
        "fabrics": [_fabric(trial) for trial in lab.trials],
        "load_average_before": lab.load,
        "num_cores": num_cores(),
        "failure": lab.failure,
    }


def summary(lab: Lab) -> dict[str, Any]:
    """The errors over all rows, and at how many places the algorithms come in the right order."""
    errors = [abs(row.relative_error) for row in lab.comparisons]
    return {
        "num_rows": len(errors),
        "median_abs_error": statistics.median(errors) if errors else None,
        "worst_abs_error": max(errors, default=None),
        "num_orders": len(lab.orders),
        "num_orders_right": sum(not order.wrong for _, order in lab.orders),
    }


def table(lab: Lab, layout: str) -> Table:
    """All rows, the fabric in front."""
    columns: tuple[Column, ...] = ()
    rows = []
    for trial in lab.trials:
        measured = [row.measurement for row in trial.comparisons]
        part = comparison_table("", measured, trial.comparisons, layout)
        columns = part.columns if len(part.columns) > len(columns) else columns
        rows += [(trial.fabric, *row) for row in part.rows]
    return Table((Column("fabric", "fabric"), *columns), tuple(rows), "all_reduce in the lab: predicted, and measured")


def notes(lab: Lab) -> list[str]:
    """What a user must know beside the table."""
    found = [f"removed what a dead run had left: {', '.join(lab.leftovers)}"] if lab.leftovers else []
    if lab.load is not None:
        busy = ", so that times may be longer than the links make them" if lab.load > num_cores() else ""
        found.append(f"load {lab.load:.1f} on {counted(num_cores(), 'core')} before the run{busy}")
    for trial in lab.trials:
        found += _of_trial(trial)
    found += sentences.legend(lab.comparisons)
    found += [f"all fabrics, {row.sentence}" for row in held_out(lab.comparisons)]
    found += _verdict(lab)
    if lab.failure is not None:
        kept = counted(len(lab.comparisons), "comparison")
        found.append(f"{lab.failure}; {kept} so far kept, everything of the lab is removed")
    return found


def has_finding(lab: Lab) -> bool:
    """Whether anything is not as predicted, wrong, late or unfinished."""
    off = any(row.verdict != "OK" or row.measurement.correct is False for row in lab.comparisons)
    turned = any(order.wrong for _, order in lab.orders)
    late = any(trial.arrivals.late_ranks for trial in lab.trials)
    return off or turned or late or lab.failure is not None


def _rows(trial: Trial) -> list[dict[str, Any]]:
    return comparison_rows([row.measurement for row in trial.comparisons], trial.comparisons)


def _fabric(trial: Trial) -> dict[str, Any]:
    return {
        "fabric": trial.fabric,
        "topology": to_plain(trial.topology),
        "point_to_point": None if trial.facts is None else to_plain(trial.facts),
        "late_s": list(trial.arrivals.late_s),
        "late_ranks": list(trial.arrivals.late_ranks),
        "failure": trial.failure,
    }


def _of_trial(trial: Trial) -> list[str]:
    """How a fabric was discovered, what messages get of it, and who came late."""
    found = []
    if trial.facts is not None:
        facts = trial.facts
        rates = sorted({link.bandwidth_bytes_per_s for link in trial.topology.links})
        limits = " and ".join(format_rate(rate) for rate in rates)
        found.append(
            f"{trial.fabric}: limits of {limits} discovered; messages alone, no collective was looked at, get "
            f"{facts.both_ways_share:.1%} of a limit both ways ({facts.one_way_share:.1%} one way), one of 8 bytes "
            f"takes {facts.message_s * 1e6:.0f} us, an in-cast of 1 MiB each {facts.in_cast_s * 1e3:.0f} ms where "
            f"{facts.in_cast_expected_s * 1e3:.0f} ms are expected"
        )
        if facts.is_crowded:
            found.append(
                f"{trial.fabric}: both ways lose more than acknowledgements cost, so that the processor limits and not "
                "the links: use a lower --rate, or fewer hosts"
            )
    late_s = trial.arrivals.late_s
    found += [
        f"{trial.fabric}: {trial.topology.gpu_ids[rank]} (rank {rank}) comes {late_s[rank] * 1e3:.0f} ms after the "
        "first, which is no transfer's time"
        for rank in trial.arrivals.late_ranks
    ]
    return found


def _verdict(lab: Lab) -> list[str]:
    whole = summary(lab)
    if not whole["num_rows"]:
        return []
    found = [f"{fabric} {order.sentence}" for fabric, order in lab.orders if order.wrong]
    orders = f"; algorithms in the right order in {whole['num_orders_right']} of {whole['num_orders']} cases"
    found.append(
        f"{counted(whole['num_rows'], 'row')}: median error {whole['median_abs_error']:.1%}, worst "
        f"{whole['worst_abs_error']:.1%}{orders if whole['num_orders'] else ''}"
    )
    return found
