"""Packages that appear to be installed in another version, or to be missing."""

import importlib.metadata

import pytest


def versions(monkeypatch: pytest.MonkeyPatch, **found: str | None) -> None:
    """Let `importlib.metadata.version` answer with these; None is a package that is not there."""
    original = importlib.metadata.version

    def version(package: str) -> str:
        said = found[package] if package in found else original(package)
        if said is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return said

    monkeypatch.setattr(importlib.metadata, "version", version)
