"""The command line: one file per command, each of which parses, calls the library and prints."""
