"""The console: see and change clusters in a browser, over `ariane.aio.Admin` alone.

options     where it listens, where its files are, which clusters it shows
config_file console.toml: channels of notices, the provider, schemas
rights      which role may see which page and make which change
people      accounts, sessions, login by a provider; admits requests
login       the pages before a session: login, password, logout
audit       the log of changes
cluster     the queries of one cluster, bounded and cached
access      the rules of brokers without their secrets, and questions to them
change      how every change is made: checked by role, made, written to the audit log
changes     the changes of clusters; access_changes of rules, people_changes of users and alarms
watch       history and alarms
schemas     bodies in Avro and Protobuf; avro reads Avro
texts       the words of the pages, one catalogue a language
pages       the pages
server      puts it together and serves it
"""
