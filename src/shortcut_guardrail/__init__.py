"""Find and repair shortcut learning in deployed text classifiers."""

__version__ = "0.1.0"
