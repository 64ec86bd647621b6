"""Twelve invented rosters of agents, as offices export them, with the truth about each row.

They were made from public descriptions of the exports, by an author who did not know the import. `rosters` writes the
files, and `score` compares agents with the truth, and corrects rejected rows as an office would.
"""
