"""The guard between an MCP client and its servers; see docs/mcp.md."""

from turnwise.integrations.mcp.messages import McpScreen

__all__ = ["McpScreen"]
