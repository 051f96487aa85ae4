"""Runs the command line as `python -m queenmq`; holds no logic of its own."""

from __future__ import annotations

from queenmq.cli.main import main

if __name__ == "__main__":
    main()
