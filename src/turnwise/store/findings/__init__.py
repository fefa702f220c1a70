"""The findings of a scan as a store: read where they are, with what people say of them kept beside them."""

from turnwise.store.findings.parts import FindingsParts
from turnwise.store.findings.places import is_findings

__all__ = ["FindingsParts", "is_findings"]
