"""Measurements of speed: never part of the tests, never imported by the package."""
