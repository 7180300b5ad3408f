"""Performance benchmarks: `make speed`, or `python -m perf --data-dir DIR --out FILE.json`; docs/explanation/performance.md."""
