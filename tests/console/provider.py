"""A small OpenID Connect provider on loopback: discovery, keys, codes with PKCE, tokens. It can be told to lie."""

import base64
import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "ariane-console", "the secret of the client"


class Provider:
    """A provider with one user, whose claims a test sets."""

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {"sub": "1", "preferred_username": "anna", "groups": ["ops"]}
        self.lies: dict[str, Any] = {}
        """Claims that replace the true ones."""
        self.sign_as = "RS256"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.sign_with: Any = self.key
        self._codes: dict[str, dict[str, str]] = {}

    def application(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def discovery() -> dict[str, str]:
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }

        @app.get("/favicon.ico")
        def icon() -> Response:
            return Response(status_code=204)

        @app.get("/keys")
        def keys() -> dict[str, Any]:
            public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            return {"keys": [public | {"kid": "k1", "use": "sig", "alg": "RS256"}]}

        @app.get("/authorize")
        def authorize(request: Request) -> Response:
            asked = dict(request.query_params)
            if asked["client_id"] != CLIENT or asked["code_challenge_method"] != "S256":
                return JSONResponse({"error": "invalid_request"}, 400)
            code = f"code-{len(self._codes)}"
            self._codes[code] = asked
            target = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
            if request.headers.get("accept", "").startswith("text/html"):  # a person at a browser
                link = target.replace("&", "&amp;")
                return HTMLResponse(f'<!doctype html><html lang="en"><title>P</title><a href="{link}">Allow</a></html>')
            return RedirectResponse(target, 303)

        @app.post("/token")
        async def token(request: Request) -> Response:
            form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
            basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            asked = self._codes.pop(form["code"], None)
            verifier = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            good = (
                asked is not None
                and request.headers.get("authorization") == f"Basic {basic}"
                and asked["redirect_uri"] == form["redirect_uri"]
                and asked["code_challenge"] == verifier.rstrip(b"=").decode()
            )
            if not good or asked is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
            now = int(time.time())
            claims = self.claims | {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300}
            claims |= {"nonce": asked["nonce"]} | self.lies
            signed = jwt.encode(claims, self.sign_with, algorithm=self.sign_as, headers={"kid": "k1"})
            return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": signed})

        return app


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Serve a provider in a thread."""
    provider = Provider()
    listener = socket.create_server(("127.0.0.1", 0))
    provider.issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(provider.application(), log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield provider
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
