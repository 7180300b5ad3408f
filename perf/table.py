"""The results beside their goals, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = tuple[str, str, str, str]


def table(results: dict[str, Any]) -> str:
    """One line a goal: what was measured, the goal, and whether it was met. A GPU has no goals, only measurements."""
    machine = results["machine"]
    device = f"{machine['processor']}, {machine['threads']} threads"
    head, columns = ["| What | Measured | Goal | |", "| --- | --- | --- | --- |"], 4
    if machine["gpu"]:
        device = f"{machine['gpu']}, handed its work by {device}"
        head, columns = ["| What | Measured |", "| --- | --- |"], 2
    rows = [row for name, make in _ROWS.items() if name in results for row in make(results[name])]
    lines = [
        f"{device}, PyTorch {machine['torch']}, Transformers {machine['transformers']}.",
        "",
        *head,
        *(f"| {' | '.join(row[:columns])} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _met(value: bool) -> str:
    return "met" if value else "missed"


def _times(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f}) times"


def _adaptation(r: dict[str, Any]) -> Iterator[Row]:
    yield (
        f"One epoch, {r['texts']} SST-2 sentences, BERT-base shape, {r['precision']}",
        f"{r['seconds']:.3g} s, {r['seconds_at_matmul_rate']:.3g} s at the machine's product rate",
        "160 s",
        _met(r["seconds"] <= 160),
    )
    best = max(side["best"] for side in r["matmul_gflops_per_s"].values())
    yield (
        "Share of the machine's product rate",
        f"{r['share_of_matmul_rate']:.0%} ({r['gflops_per_s']:.0f} of {best:.0f} GFLOP/s)",
        "65 %",
        _met(r["share_of_matmul_rate"] >= 0.65),
    )


def _against_plain(r: dict[str, Any]) -> Iterator[Row]:
    yield (
        "Good plain adaptation over ours",
        _times(r["plain_over_ours"]),
        "3",
        _met(r["plain_over_ours"]["median"] >= 3),
    )
    yield "The same, ours in float32", _times(r["plain_over_ours_float32"]), "", ""
    careless = r["careless_over_ours"]
    yield "Careless adaptation over ours", _times(careless), "10", _met(careless["median"] >= 10)
    losses = ", ".join(f"{name} {value:.5f}" for name, value in r["first_loss"].items())
    yield "First loss of one batch", losses, "equal", ""


def _without_each(r: dict[str, Any]) -> Iterator[Row]:
    for name, value in r["over_all"].items():
        yield f"Adaptation {name}, over all fast paths", _times(value), "", ""


def _profile(r: dict[str, Any]) -> Iterator[Row]:
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in r["shares"].items())
    yield f"Where a step of {r['texts']} sentences spends its time", shares, "", ""
    if "device_busy" in r:
        yield "Share of that step in which the GPU computes", f"{r['device_busy']:.0%} of {r['wall_s']:.3f} s", "", ""
    if "share_of_matmul_rate" in r:
        own = f"{r['share_of_matmul_rate']:.0%}; the products by weights alone {r['products_share_of_rate']:.0%}"
        yield "Share of the machine's product rate in that step", own, "75 %", _met(r["share_of_matmul_rate"] >= 0.75)


def _families(r: dict[str, Any]) -> Iterator[Row]:
    for texts in ("sst2", "yelp"):
        for family, found in r[texts]["families"].items():
            over = found["over_ours"]
            yield f"Adaptation in one padded batch over ours, {family}, {texts}", _times(over["padded"]), "", ""
            if "grouped" in over:
                yield f"Grouped by length over packed, {family}, {texts}", _times(over["grouped"]), "", ""
            if "narrow" in over:
                yield f"Only the relative positions that occur, over ours, {family}", _times(over["narrow"]), "", ""
            yield (
                f"Prediction as texts come, padded, over ours, {family}, {texts}",
                _times(over["predict padded"]),
                "",
                "",
            )
            shares = ", ".join(f"{way} {share:.0%}" for way, share in found["share_of_matmul_rate"].items())
            yield f"Share of the machine's product rate, {family}, {texts}", shares, "", ""
    for family, step in r["steps"].items():
        for what, measured, *_ in _profile(step):
            yield f"{what}, {family}", measured, "", ""


def _attribution(r: dict[str, Any]) -> Iterator[Row]:
    single, captum = r["one_at_a_time_over_ours"], r["captum_over_ours"]
    yield "One text at a time over ours, attribution", _times(single), "4", _met(single["median"] >= 4)
    yield "captum in batches over ours, attribution", _times(captum), "1.5", _met(captum["median"] >= 1.5)
    yield "The same two, ours in float32", _both(r, "one_at_a_time", "captum"), "", ""
    for name, difference in r["largest_relative_difference_to_captum"].items():
        yield f"Largest difference of a score to captum's, {name}", f"{difference:.1e} of the text's largest", "", ""


def _both(r: dict[str, Any], *names: str) -> str:
    return ", ".join(_times(r[f"{name}_over_ours_float32"]) for name in names)


def _audit(r: dict[str, Any]) -> Iterator[Row]:
    yield "Audit with captum over ours", _times(r["captum_over_ours"]), "3", _met(r["captum_over_ours"]["median"] >= 3)
    yield "The same, ours in float32", _times(r["captum_over_ours_float32"]), "", ""
    yield "MSTPS", ", ".join(f"{name} {value:.5f}" for name, value in r["mstps"].items()), "equal", ""


def _calibration(r: dict[str, Any]) -> Iterator[Row]:
    share = r["share_of_epoch"]
    yield "Calibration over 11 strengths, share of an epoch", f"{share:.1%}", "5 %", _met(share <= 0.05)


def _prediction(r: dict[str, Any]) -> Iterator[Row]:
    merged = r["merged_over_base"]
    yield "Guarded prediction over the base model's", _times(merged), "1.00", _met(merged["lowest"] <= 1.02)


def _start(r: dict[str, Any]) -> Iterator[Row]:
    yield "Start of the command line (--help)", f"{r['help_s']:.2f} s", "2 s", _met(r["help_s"] <= 2)


def _padding(r: dict[str, Any]) -> Iterator[Row]:
    for name, value in r.items():
        waste = f"{value['packed']:.1%} packed, {value['padded']:.1%} padded; plain batches {value['plain']:.0%}"
        yield f"Padding, {name}", waste, "5 %", _met(value["packed"] <= 0.05)


def _memory_of_texts(r: dict[str, Any]) -> Iterator[Row]:
    for task, sizes in r.items():
        grown = ", ".join(f"{int(n):,}: {v['peak_mb'] - v['before_mb']:.0f} MB" for n, v in sizes.items())
        yield f"Memory added by {task}, by number of texts", grown, "flat", ""


def _memory_of_a_batch(r: dict[str, Any]) -> Iterator[Row]:
    whole = r["0"]
    for most, value in r.items():
        if most != "0":
            added = f"{value['peak_mb']:,.0f} MB rather than {whole['peak_mb']:,.0f}"
            price = value["seconds_per_step"] / whole["seconds_per_step"]
            yield f"Batch of 88 x 128 tokens, {most} sequences at once", f"{added}, {price:.2f} times the time", "", ""


def _product_cache(r: dict[str, Any]) -> Iterator[Row]:
    ways = ", ".join(f"{size}: {value['seconds']:.1f} s, {value['peak_mb']:,.0f} MB" for size, value in r.items())
    yield "An epoch by the number of compiled products that are kept", ways, "", ""


def _two_processes(r: dict[str, Any]) -> Iterator[Row]:
    apart = f"weights apart by {r['largest_weight_difference']:.0e} of {r['largest_trained_weight']:.0e}"
    yield "One process over two, one thread each", f"{r['one_over_two']:.2f} times, {apart}", "", ""


def _compiled(r: dict[str, Any]) -> Iterator[Row]:
    ways = ", ".join(
        f"{name} {v['then_s']:.2f} s (first {v['first_s']:.1f} s)" for name, v in r.items() if isinstance(v, dict)
    )
    yield "A step with torch.compile, 4 layers", ways, "", ""


def _same_effect(r: dict[str, Any]) -> Iterator[Row]:
    for name in ("fast", "plain"):
        v = r[name]
        scores = f"accuracy {v['accuracy']:.3f}, worst group {v['worst_group_accuracy']:.3f}, {v['seconds']:.0f} s"
        yield (
            f"GoEmotions guarded, {name} (base {r['base_accuracy']:.3f})",
            f"{scores}, strength {v['strength']}",
            "",
            "",
        )


_ROWS = {
    "adaptation": _adaptation,
    "adaptation_against_plain": _against_plain,
    "adaptation_without_each": _without_each,
    "profile": _profile,
    "families": _families,
    "attribution": _attribution,
    "audit": _audit,
    "calibration": _calibration,
    "prediction": _prediction,
    "start": _start,
    "padding": _padding,
    "memory_of_texts": _memory_of_texts,
    "memory_of_a_batch": _memory_of_a_batch,
    "product_cache": _product_cache,
    "two_processes": _two_processes,
    "compiled": _compiled,
    "same_effect": _same_effect,
}
