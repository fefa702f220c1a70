"""Charts of trajectories: one description, written as HTML that works offline, SVG, PNG or PDF."""

from turnwise.plots.charts import MatchedLine, matches_chart, trajectory_chart
from turnwise.plots.render import Drawings, check_target, draw, save

__all__ = ["Drawings", "MatchedLine", "check_target", "draw", "matches_chart", "save", "trajectory_chart"]
