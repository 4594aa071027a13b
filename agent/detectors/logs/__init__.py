"""Log lines of this host: from whom, what they mean, and when what they meant is over.

    sources (kmsg, journal, files)  ->  Line  ->  watch()  ->  ConditionReport, EventReport

`watch` is pure: program, state, line and time in; state and reports out. What the program knows
comes from our own packs (packs/*.toml) and from node-problem-detector's configuration files.
"""
