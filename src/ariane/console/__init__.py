"""The console: see and change clusters in a browser, over `ariane.aio.Admin` alone.

options     where it listens, where its files are, which clusters it shows
users       local accounts with hashed passwords, and their roles
sessions    who is logged in; slows down guessing of passwords
rights      which role may see which page and make which change
audit       the log of changes
guard       admits requests: session, origin, headers
login       the pages before a session: login, password, logout
cluster     the queries of one cluster, bounded and cached
changes     every change: checked by role, made, written to the audit log
history     rates, lag and disk over time in SQLite
alarms      rules over the newest sample; mail and webhooks
texts       the words of the pages, one catalogue a language
pages       the pages
server      puts it together and serves it
"""
