"""Principles of a user's own, taught to the embedded observer from annotated turns."""

from turnwise.study.teaching.annotations import Annotation, Annotations, read_annotations
from turnwise.study.teaching.draft import MOST_LOOKED_AT, Candidate, draft_principle, pick, write_candidates
from turnwise.study.teaching.fit import Worth
from turnwise.study.teaching.teach import Taught, teach

__all__ = [
    "MOST_LOOKED_AT",
    "Annotation",
    "Annotations",
    "Candidate",
    "Taught",
    "Worth",
    "draft_principle",
    "pick",
    "read_annotations",
    "teach",
    "write_candidates",
]
