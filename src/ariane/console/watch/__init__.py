"""What the console does beside its pages: it samples each cluster, keeps history, and tells alarms.

sampler   a sample of each cluster now and then
history   rates, lag and disk over time; database: in SQLite, bounded, and set aside when it is broken
alarms    when an alarm begins and ends, and who is told when
notices   mail and webhooks
"""
