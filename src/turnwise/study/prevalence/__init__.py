"""How common attacks are among what was scanned: from the flags of a scan, and from labels of a sample of it."""

from turnwise.study.prevalence.from_flags import (
    DetectorRates,
    MeasuredRate,
    Prevalence,
    read_rates,
    shipped_rates,
    summarise,
)
from turnwise.study.prevalence.from_labels import Labelled, estimate_from_labels, read_labels
from turnwise.study.prevalence.label_sample import (
    CLEAR,
    DESIGN,
    MISSED,
    NARROW,
    REST,
    TEXTS,
    Drawn,
    LabelSample,
    SampledStratum,
    allocate,
    draw_label_sample,
    read_label_sample,
    write_label_sample,
)

__all__ = [
    "CLEAR",
    "DESIGN",
    "MISSED",
    "NARROW",
    "REST",
    "TEXTS",
    "DetectorRates",
    "Drawn",
    "LabelSample",
    "Labelled",
    "MeasuredRate",
    "Prevalence",
    "SampledStratum",
    "allocate",
    "draw_label_sample",
    "estimate_from_labels",
    "read_label_sample",
    "read_labels",
    "read_rates",
    "shipped_rates",
    "summarise",
    "write_label_sample",
]
