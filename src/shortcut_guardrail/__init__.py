"""Find and repair shortcut learning in deployed text classifiers.

>>> from shortcut_guardrail import ShortcutGuardrail
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .config import (
    AdapterConfig,
    AuditConfig,
    CalibrationConfig,
    CertifyConfig,
    DistillConfig,
    GuardrailConfig,
    SaliencyConfig,
    ShortcutConfig,
    preset,
)
from .errors import ConfigError, DataError, GuardrailError, GuardrailWarning, ModelError, NothingToRepairError, RunError

if TYPE_CHECKING:
    from .audit import AuditReport, Candidate, ImportantToken, ShardedAudit
    from .data import FileTexts, Texts, read_data
    from .decisions import Answers, Decision, Decisions, Questions, decide
    from .evaluation import Evaluation
    from .guardrail import ShortcutGuardrail
    from .mitigation import FitReport, Repair
    from .models import TextClassifier
    from .shortcuts import Shortcut, Shortcuts
    from .strength import Calibration, Certificate, StrengthChoice, UnlabelledCalibration

__version__ = "0.1.0"

# PyTorch and Transformers take seconds to import; the command line's --help must not wait for them.
_LAZY = {
    "Answers": "decisions",
    "AuditReport": "audit",
    "Calibration": "strength",
    "Candidate": "audit",
    "Certificate": "strength",
    "Decision": "decisions",
    "Decisions": "decisions",
    "Evaluation": "evaluation",
    "FileTexts": "data",
    "FitReport": "mitigation",
    "ImportantToken": "audit",
    "Questions": "decisions",
    "Repair": "mitigation",
    "ShardedAudit": "audit",
    "Shortcut": "shortcuts",
    "ShortcutGuardrail": "guardrail",
    "Shortcuts": "shortcuts",
    "StrengthChoice": "strength",
    "TextClassifier": "models",
    "Texts": "data",
    "UnlabelledCalibration": "strength",
    "decide": "decisions",
    "read_data": "data",
}

__all__ = [
    "AdapterConfig",
    "Answers",
    "AuditConfig",
    "AuditReport",
    "Calibration",
    "CalibrationConfig",
    "Candidate",
    "Certificate",
    "CertifyConfig",
    "ConfigError",
    "DataError",
    "Decision",
    "Decisions",
    "DistillConfig",
    "Evaluation",
    "FileTexts",
    "FitReport",
    "GuardrailConfig",
    "GuardrailError",
    "GuardrailWarning",
    "ImportantToken",
    "ModelError",
    "NothingToRepairError",
    "Questions",
    "Repair",
    "RunError",
    "SaliencyConfig",
    "ShardedAudit",
    "Shortcut",
    "ShortcutConfig",
    "ShortcutGuardrail",
    "Shortcuts",
    "StrengthChoice",
    "TextClassifier",
    "Texts",
    "UnlabelledCalibration",
    "decide",
    "preset",
    "read_data",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
