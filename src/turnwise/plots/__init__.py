"""Charts of trajectories: one description, written as HTML that works offline, SVG, PNG or PDF."""

from turnwise.plots.matches import MatchedLine, matches_chart
from turnwise.plots.save import check_target, save
from turnwise.plots.trajectory import trajectory_chart

__all__ = ["MatchedLine", "check_target", "matches_chart", "save", "trajectory_chart"]
