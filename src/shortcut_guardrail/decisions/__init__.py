"""Decisions on cards: questions about flips, answers of people and classifiers, and which words should count."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
