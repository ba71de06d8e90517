"""Outrider from Python: a large model answers, a small one on this device drafts ahead.

    import outrider

    with outrider.Edge("--server", "gpu-node:8001", "--model", "models/draft") as edge:
        print(edge.client.chat("What do you see?").text)

`Edge` starts and ends the program `outrider-edge serve`. Where one runs already, `Client("http://127.0.0.1:8080")`
asks it, and `AsyncClient` does so under asyncio. Both also ask `outrider-server --http-port`.

SPDX-License-Identifier: Apache-2.0
"""
from outrider.client import AsyncClient, Client
from outrider.edge import Edge
from outrider.types import (Answer, ConnectionFailed, Done, Event, Figures, Link, Message, OutriderError, Refused, Slo, Text, ToolCall,
                            Unverified)

__all__ = ["Answer", "AsyncClient", "Client", "ConnectionFailed", "Done", "Edge", "Event", "Figures", "Link", "Message", "OutriderError",
           "Refused", "Slo", "Text", "ToolCall", "Unverified"]
__version__ = "0.1.0"
