"""The version of this release, for modules that may not import the package's public names."""

from __future__ import annotations

VERSION = "0.2.0"
