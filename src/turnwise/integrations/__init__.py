"""The guard and the detectors in other people's frameworks; each framework needs the extra of its name."""


class MissingExtraError(ImportError):
    """A framework is not installed; ``extra`` is the extra of turnwise that brings it."""

    def __init__(self, extra: str, error: ImportError) -> None:
        needed = (error.name or extra).partition(".")[0]
        super().__init__(f"turnwise.integrations.{extra} needs {needed}: pip install 'turnwise[{extra}]'")
        self.name = error.name
