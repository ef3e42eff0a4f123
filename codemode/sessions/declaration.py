"""What a session was asked to be, so that a later run of the server can make it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codemode.calls.approvals import ApprovalPolicy
from codemode.calls.hooks import Hook, hook_from_declared
from codemode.lifecycle.events import encoded
from codemode.limits import Limits
from codemode.tools.declaration import declared, from_declared
from codemode.tools.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A session's own tools and settings; the service's tools and limits come on top of them."""

    limits: Limits
    tools: Sequence[Tool] = ()
    hooks: Sequence[Hook] = ()
    metadata: Mapping[str, Any]
    approval_policy: ApprovalPolicy = "never"
    model_warnings: bool = False
    lenient_source: bool = False
    typescript: bool = False

    def encode(self) -> bytes:
        """As JSON."""
        return encoded(
            {
                "tools": [declared(tool) for tool in self.tools],
                "hooks": [hook.declared() for hook in self.hooks],
                "limits": self.limits.as_dict(),
                "metadata": self.metadata,
                "approval_policy": self.approval_policy,
                "model_warnings": self.model_warnings,
                "lenient_source": self.lenient_source,
                "typescript": self.typescript,
            }
        )

    @classmethod
    def decode(cls, text: bytes, server: Limits) -> Declaration:
        """The same again, under what are the server's limits now: each is at most as high as the server's."""
        said = json.loads(text)
        mine = server.as_dict()
        limits = {name: min(value, mine[name]) for name, value in said["limits"].items() if name in mine}
        return cls(
            limits=Limits.of(mine | limits),
            tools=[from_declared(tool) for tool in said["tools"]],
            hooks=[hook_from_declared(hook) for hook in said.get("hooks", ())],
            metadata=said["metadata"],
            approval_policy=said["approval_policy"],
            model_warnings=said["model_warnings"],
            lenient_source=said.get("lenient_source", False),  # not in those of earlier versions
            typescript=said.get("typescript", False),
        )
