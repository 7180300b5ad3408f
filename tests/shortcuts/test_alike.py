"""What a found word brings with it: what is alike in meaning, pulls to the same class and overrides its texts too."""

from __future__ import annotations

import numpy as np
import pytest

from audit.test_cards import bag_of
from shortcut_guardrail.audit.auditing import audit_texts
from shortcut_guardrail.config import ShortcutConfig
from shortcut_guardrail.shortcuts.alike import alike_to, alike_words
from shortcut_guardrail.shortcuts.search import find_shortcuts
