"""The broker's tables: topics, groups, offsets, clients, queue locks; and their files in the config folder."""
