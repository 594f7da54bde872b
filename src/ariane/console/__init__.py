"""The console: see and change clusters in a browser, over `ariane.aio.Admin` alone.

options     where it listens, where its files are, which clusters it shows
users       local accounts with hashed passwords, and their roles
sessions    who is logged in; slows down guessing of passwords
rights      which role may see which page and make which change
audit       the log of changes
guard       admits requests: session, origin, headers
login       the pages before a session: login, password, logout
oidc        login by an OpenID Connect provider
config_file console.toml: channels of notices, the provider, schemas
cluster     the queries of one cluster, bounded and cached
access      the rules of brokers without their secrets, and questions to them
change      how every change is made: checked by role, made, written to the audit log
changes     the changes of clusters; access_changes of rules, people_changes of users and alarms
history     rates, lag and disk over time in SQLite
alarms      when an alarm begins and ends, and who is told when
notices     mail and webhooks
sampler     a sample of each cluster now and then, for history and alarms
schemas     bodies in Avro and Protobuf; avro reads Avro
texts       the words of the pages, one catalogue a language
pages       the pages
server      puts it together and serves it
"""
