"""Who uses the console: accounts, sessions, and what a request needs to be served.

users     local accounts with hashed passwords, and their roles
sessions  who is logged in; slows down guessing of passwords
oidc      login by an OpenID Connect provider
visitor   the user of a page, with role and address
guard     admits requests: session, origin, headers
"""
