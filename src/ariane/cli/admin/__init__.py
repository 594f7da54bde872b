"""`ariane admin`: the subcommands of mqadmin under their names and flags; what a script reads is the same.

table                             every subcommand with its options, and the function that runs it
call                              options as they were given, and the output
main, command                     `ariane admin NAME ...`, and the command among the others
java_text                         Java's and fastjson's forms of values
topics, groups, offsets, ...      the subcommands by concern
"""
