"""A plug-in of every kind. `pyproject.toml` beside this folder says under which names turnwise finds them."""
