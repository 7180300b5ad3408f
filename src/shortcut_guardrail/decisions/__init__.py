"""Decisions on cards: which words should count, by a person's word or by judging the answers that change (flips)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
