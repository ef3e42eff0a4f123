"""The way in for MCP clients: the tools `exec` and `wait`, over standard input and output or over HTTP."""
