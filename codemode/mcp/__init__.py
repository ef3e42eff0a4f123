"""MCP in both directions: servers whose tools scripts call, and `door`, by which MCP clients run scripts.

Nothing outside of this package imports `mcp`, which is installed with the extra `codemode[mcp]` alone.
"""
