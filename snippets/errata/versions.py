"""The version that claims about TileLang are held to."""

from importlib.metadata import version

print("tilelang", version("tilelang"))
