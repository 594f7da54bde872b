"""What a browser sees before a session: login, the change of a password, logout. Plain HTML without a websocket.

- `forms`: the HTML.
- `pages`: login by password, the change of a password, logout.
- `provider`: login by an OpenID Connect provider.
"""

from ariane.console.login.forms import refusal_page
from ariane.console.login.pages import LoginPages

__all__ = ["LoginPages", "refusal_page"]
