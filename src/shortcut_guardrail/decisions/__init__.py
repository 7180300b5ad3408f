"""Decisions on word groups: questions about prediction changes, answers of people and classifiers, and what follows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
