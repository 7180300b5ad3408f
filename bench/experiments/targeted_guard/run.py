"""The targeted strategies beside the paper's, on the four sets with inserted shortcuts.

    python bench/experiments/targeted_guard/run.py --data-dir ../shared/data --out results/targeted_guard

For each data set and seed, a classifier is fine-tuned on texts with the shortcut, as the benchmark's experiment
`shifted` does at scale `small` (kept under `--cache`, where that experiment finds it too). Guards are fitted on
unlabelled texts in which the correlation is reversed and scored there, in accuracy and balanced accuracy, as shares of
the gap to the oracle, which answers the texts without the inserted shortcut. 40 rows are set apart as support set and
never scored. Every guard is scored at several strengths: the one chosen without labels, the one chosen on the support
set, the former unless the latter speaks against it (`both`; not for the paper's strategy), and 1; and again, at the
same strengths, on in-distribution texts. `few-shot` learns from the support set and is
scored at two, since it chooses none without labels. Beside that:

- `teachers`: how much of the gap the base closes where it reads the texts with the targets masked, or cut out; and,
  without labels, how often its answer stays where a run of whole words with as many tokens elsewhere in the text is
  masked, or cut out. (Shortcuts may lie in several runs, and texts without room for the run are left out.)
- `fitted_in_distribution`: `distill` fitted on in-distribution texts, scored there.
- `clean`: `distill` fitted on a classifier that was trained without the shortcut, and on texts without it.
- for the synonyms, `distill` and `mask` told the planted words: what is lacking there is not for want of finding them.
- `unseen` and `unseen, maskcl`: for the synonyms, `distill` and `mask`, and the paper's strategy, fitted on texts with
  one half of them and scored on texts with the other half. Synonyms that share a telling word are in one half.
- `certificates`: over random splits of at most 1,000 scored texts into labelled and unlabelled ones, how often a
  certified strength loses more than the margin on all of them, and how often one above 0 is certified; and the same on
  in-distribution texts, where a guard that pulls too hard harms.
- with `--ablations`, variants of `distill`: evidence, teacher, temperature, weight of keeping, insertion, unit of the
  audit, steps, how far weights move, number of texts, and share of texts with the shortcut.

Each data set and seed is one JSON file, written whenever a part of it is finished; finished parts are skipped, and a
file that was begun with other options is refused. `commits` says from which commit each part is (where it is absent,
from one before 22 November 2026, 15:00). Summary over the seeds of all files: `summary.json`; its shares of the gap
are those of the means, and its intervals resample the scored texts, once for all seeds. Answers are kept as strings,
one character a row.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import Found, Measured
from parts import all_parts
from shortcut_bench.bases import open_setting
from shortcut_bench.results import commit
from shortcut_bench.store import dense_json
from shortcut_guardrail import GuardrailWarning
from shortcut_guardrail.data.files import to_json, write_file
from shortcut_guardrail.saving.record import library_versions
from summary import summary
from variants import STRATEGIES

DATASETS = ("goemo-st", "goemo-syn", "yelp-st", "yelp-syn")


def unlike(found: Any, wanted: Any, path: str = "") -> list[str]:
    """In which options two configurations differ, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = sorted(found.keys() | wanted.keys())
        return [
            text for name in names for text in unlike(found.get(name), wanted.get(name), f"{path}.{name}".lstrip("."))
        ]
    return [] if found == wanted else [f"{path} {found} (now {wanted})"]


def run(name: str, seed: int, arguments: argparse.Namespace, file: Path) -> Found:
    """Data, classifier, and all measurements; what the file has is not measured again."""
    changes = {"n_test": arguments.n_test}
    opened = open_setting("shifted", name, seed, data_dir=arguments.data_dir, cache=arguments.cache, changes=changes)
    measured = Measured(opened, arguments)
    result: Found = {
        "data": name,
        "seed": seed,
        "max_tokens": opened.scale.max_tokens,
        "n_train": len(opened.data.train),
        "classifier": measured.trained.to_dict(),
        "versions": library_versions(),
        "parts": {},
    }
    options = {name: getattr(arguments, name) for name in ("n_test", "n_deployment", "splits", "precision")}
    # What the library takes as it is, so that parts measured before a default was changed are not taken for new ones.
    options |= {"dial": "divergence", "strategies": {key: config.to_dict() for key, config in STRATEGIES.items()}}
    result["options"] = options = json.loads(to_json(options))
    if file.exists():
        result = json.loads(file.read_text(encoding="utf-8"))
        if result.get("options") != options:
            raise SystemExit(
                f"{file} was begun with other options than these: {', '.join(unlike(result.get('options'), options))}. "
                "Choose another --out, or delete the file."
            )
        if result["classifier"]["train_loss"] != list(measured.trained.train_loss):
            raise SystemExit(f"{file} is of another classifier, trained elsewhere. Choose another --out, or delete it.")
    for part, measure in all_parts(measured).items():
        if part not in result["parts"] and (arguments.parts is None or part in (*arguments.parts, "bounds")):
            result["parts"][part] = measure(result["parts"])
            result.setdefault("commits", {})[part] = commit()
            write_file(file, dense_json(result), overwrite=True)
            print(name, seed, part, flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure what is missing, and sum up all that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="Folder for the results.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--n-deployment", type=int, default=1000, help="Texts a guard is fitted on, at most.")
    parser.add_argument("--n-test", type=int, default=None, help="Test texts; all of them without it.")
    parser.add_argument("--splits", type=int, default=200, help="Random splits for the certificates; 0 counts none.")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--parts", nargs="+", help='Only these, such as mask or "ablation, teacher: mask".')
    parser.add_argument("--precision", default="auto", choices=("auto", "float32", "bfloat16"))
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore", GuardrailWarning)
    for name in args.datasets.split(","):
        for seed in map(int, args.seeds.split(",")):
            run(name, seed, args, args.out / f"{name}-{seed}.json")
    # All that is there, not only what this run was asked for.
    files = sorted(args.out.glob("*-[0-9].json"), key=lambda file: (DATASETS.index(file.stem[:-2]), file.stem))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    write_file(args.out / "summary.json", dense_json(summary(results)), overwrite=True)


if __name__ == "__main__":
    main()
