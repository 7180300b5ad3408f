"""Finished results as text and HTML; nothing is computed here."""
