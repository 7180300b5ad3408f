"""Performance benchmarks: `make speed`, or `python -m perf --data-dir DIR --out FILE.json`; docs/research/speed.md."""
