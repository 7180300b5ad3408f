"""`shortcut-guardrail audit`: which tokens does the model lean on?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from . import options
from .running import progress_bars

if TYPE_CHECKING:
    from ..audit import AuditReport


def audit(
    model: options.ModelOrGuard,
    data: options.Data,
    out: options.OutFolder,
    text_column: options.TextColumn = None,
    text_pair_column: options.TextPairColumn = None,
    top_k: options.TopK = 10,
    base: options.Base = None,
    revision: options.Revision = None,
    head: options.Head = None,
    device: options.Device = None,
    batch_size: options.BatchSize = 32,
    max_length: options.MaxLength = None,
    precision: options.Precision = options.PrecisionChoice.float32,
    allow_pickle: options.AllowPickle = False,
    trust_remote_code: options.TrustRemoteCode = False,
    overwrite: options.Overwrite = False,
    debug: options.Debug = False,
) -> None:
    """Find the tokens a model leans on, overall and input by input.

    The texts need no labels. Every candidate token is listed with the number of texts in which it is important, how
    often masking it changes the answer, and the label it pulls to.
    """
    from ..data import read_data
    from ..files import check_output, write_folder
    from ..report.terminal import print_audit

    check_output(out, overwrite=overwrite, folder=True)
    texts = read_data(data, text_column=text_column, text_pair_column=text_pair_column)
    guard = options.load_guard(
        model,
        device=device,
        head=head,
        precision=precision,
        top_k=top_k,
        base=base,
        revision=revision,
        batch_size=batch_size,
        max_length=max_length,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )
    with progress_bars() as progress:
        report = guard.audit(texts.texts, top_k=top_k, progress=progress)
    write_folder(out, lambda folder: _write(folder, report), overwrite=overwrite)
    print_audit(report)
    print(f"Written: {out / 'audit.json'} and, input by input, {out / 'important_tokens.jsonl'}")


def _write(folder: Path, report: AuditReport) -> None:
    from ..files import to_json

    (folder / "audit.json").write_text(to_json(report.to_dict()), encoding="utf-8")
    with (folder / "important_tokens.jsonl").open("w", encoding="utf-8") as lines:
        for index in range(report.n):
            lines.write(json.dumps(report.input_to_dict(index), ensure_ascii=False) + "\n")
