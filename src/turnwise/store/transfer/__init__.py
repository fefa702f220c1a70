"""A store as files that others read, and files or another store back into a store."""

from turnwise.store.transfer.folder import FORMATS, Exported, export
from turnwise.store.transfer.merging import Merged, import_record

__all__ = ["FORMATS", "Exported", "Merged", "export", "import_record"]
