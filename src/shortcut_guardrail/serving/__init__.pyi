from .exporting import EXPORT_FILE as EXPORT_FILE
from .exporting import Export as Export
from .exporting import Format as Format
from .exporting import check_exportable as check_exportable
from .exporting import export_guard as export_guard
from .hub import push_to_hub as push_to_hub
