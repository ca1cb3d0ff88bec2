from typing import Any

ATTACKS: dict[str, Any] = {}
