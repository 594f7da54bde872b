"""RocketMQ in Spark through PySpark: topics and store folders as data sources, and the pipelines built on them.

Nothing is imported here that needs Spark: executors and the planner import only the module they use.
"""
