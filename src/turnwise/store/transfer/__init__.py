"""A store as files that others read, and files or another store back into a store."""

from turnwise.store.transfer.exporting import Exported, export
from turnwise.store.transfer.folder import FORMATS
from turnwise.store.transfer.importing import import_record
from turnwise.store.transfer.merging import Merged

__all__ = ["FORMATS", "Exported", "Merged", "export", "import_record"]
